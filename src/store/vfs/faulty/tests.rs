use super::*;
use crate::store::vfs::write_all_at;

const DIR: &str = "/d";

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn durable_file(vfs: &FaultyVfs, name: &str, contents: &[u8]) -> Arc<dyn VfsFile> {
    let file = vfs.open(&path(name), OpenMode::CreateNew).unwrap();
    write_all_at(&*file, contents, 0).unwrap();
    file.sync_all().unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    file
}

#[test]
fn what_was_synced_survives_and_the_rest_is_lost() {
    let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
    let file = durable_file(&vfs, "a", &[1; 5000]);
    write_all_at(&*file, &[2; 100], 4090).unwrap();
    file.set_len(9000).unwrap();
    let vfs = vfs.reboot();
    assert_eq!(vfs.contents(&path("a")).unwrap(), [1; 5000]);
    assert!(file.size().is_err(), "a handle of the old life is dead");
}

#[test]
fn a_cut_that_was_not_synced_comes_back_with_its_contents() {
    let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
    let file = durable_file(&vfs, "a", &[7; 9000]);
    file.set_len(10).unwrap();
    assert_eq!(vfs.reboot().contents(&path("a")).unwrap(), [7; 9000]);
}

#[test]
fn names_need_a_sync_of_their_directory_unless_lenient() {
    for (directories, kept) in [(Directories::Strict, false), (Directories::Lenient, true)] {
        let vfs = FaultyVfs::new(1, Cut::All, directories);
        durable_file(&vfs, "old", b"o");
        vfs.rename(&path("old"), &path("moved")).unwrap();
        let file = vfs.open(&path("new"), OpenMode::CreateNew).unwrap();
        file.sync_all().unwrap();
        let vfs = vfs.reboot();
        assert_eq!(vfs.contents(&path("new")).is_some(), kept);
        assert_eq!(vfs.contents(&path("moved")).is_some(), kept);
        assert_eq!(vfs.contents(&path("old")).is_some(), !kept);
    }
}

#[test]
fn a_removed_name_comes_back_until_its_directory_was_synced() {
    let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
    durable_file(&vfs, "a", b"a");
    vfs.remove(&path("a")).unwrap();
    let vfs = vfs.reboot();
    assert_eq!(vfs.contents(&path("a")).unwrap(), b"a");
    vfs.remove(&path("a")).unwrap();
    vfs.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(vfs.reboot().contents(&path("a")), None);
}

#[test]
fn after_a_failed_sync_the_next_succeeds_and_the_pages_are_lost_all_the_same() {
    let vfs = FaultyVfs::new(1, Cut::Half, Directories::Strict);
    let file = durable_file(&vfs, "a", &[1; 8192]);
    vfs.set_faults(Faults { sync_fails_at: Some(1), ..Faults::default() });
    write_all_at(&*file, &[2; 4096], 0).unwrap();
    assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
    let mut one = [0];
    file.read_at(&mut one, 0).unwrap();
    assert_eq!(one, [2], "still readable");
    file.sync_data().unwrap();
    assert_eq!(vfs.reboot().contents(&path("a")).unwrap(), [1; 8192]);
}

#[test]
fn half_a_cut_keeps_some_pages_and_tears_others() {
    let mut seen = BTreeSet::new();
    for seed in 0..40 {
        let vfs = FaultyVfs::new(seed, Cut::Torn, Directories::Strict);
        let file = durable_file(&vfs, "a", &[1; 4096]);
        write_all_at(&*file, &[2; 4096], 0).unwrap();
        let after = vfs.reboot().contents(&path("a")).unwrap();
        for sector in after.chunks(SECTOR) {
            assert!(sector.iter().all(|b| b == &sector[0]), "sectors are whole");
        }
        seen.insert(after.chunks(SECTOR).map(|s| s[0]).collect::<Vec<_>>());
    }
    assert!(seen.len() > 20);
}

#[test]
fn the_crash_strikes_at_its_operation_and_the_same_seed_repeats_the_run() {
    let run = |seed| {
        let vfs = FaultyVfs::new(seed, Cut::Torn, Directories::Strict);
        let file = durable_file(&vfs, "a", &[0; 9000]);
        vfs.set_faults(Faults { crash_at: Some(3), ..Faults::default() });
        let done = (0..5u8).take_while(|n| write_all_at(&*file, &[*n + 1; 9000], 0).is_ok()).count();
        assert_eq!(done, 2);
        assert!(vfs.is_down());
        vfs.reboot().contents(&path("a")).unwrap()
    };
    assert_eq!(run(5), run(5));
    assert_ne!(run(5), run(6));
}

#[test]
fn a_full_disk_takes_overwrites_only_and_short_writes_are_completed() {
    let vfs = FaultyVfs::new(1, Cut::All, Directories::Strict);
    let file = durable_file(&vfs, "a", &[0; 1000]);
    vfs.set_faults(Faults { capacity: Some(1000), short_write_in: Some(1), ..Faults::default() });
    assert_eq!(vfs.free_space(Path::new(DIR)).unwrap(), 0);
    write_all_at(&*file, &[3; 1000], 0).unwrap();
    assert_eq!(vfs.contents(&path("a")).unwrap(), [3; 1000]);
    assert_eq!(write_all_at(&*file, &[3; 9], 1000).unwrap_err().kind(), io::ErrorKind::StorageFull);
}
