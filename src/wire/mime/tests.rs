//! Whole packages: what peers send, what must be refused, and that pieces never matter.

use proptest::prelude::*;

use super::{MimeError, MimeLimits, PartEvent, PartHead, PartReader};

type Parts = Vec<(PartHead, Vec<u8>)>;

/// Reads `package` in pieces whose lengths repeat `pieces`.
fn read(boundary: &str, package: &[u8], pieces: &[usize]) -> Result<Parts, MimeError> {
    let mut reader = PartReader::new(boundary, MimeLimits::default());
    let mut parts: Parts = Vec::new();
    let mut open = false;
    let mut on = |event: PartEvent<'_>| {
        match event {
            PartEvent::Head(head) => {
                assert!(!open);
                open = true;
                parts.push((head, Vec::new()));
            }
            PartEvent::Data(data) => {
                assert!(open && !data.is_empty());
                parts.last_mut().unwrap().1.extend_from_slice(data);
            }
            PartEvent::End => {
                assert!(open);
                open = false;
            }
        }
        Ok(())
    };
    let mut rest = package;
    for length in pieces.iter().cycle() {
        let (piece, after) = rest.split_at((*length).min(rest.len()));
        reader.feed::<MimeError>(piece, &mut on)?;
        rest = after;
        if rest.is_empty() {
            break;
        }
    }
    reader.finish::<MimeError>(&mut on)?;
    assert!(reader.is_complete() && !open);
    Ok(parts)
}

/// The bodies, or the error; the same for every length of pieces.
fn bodies(boundary: &str, package: &[u8]) -> Result<Vec<Vec<u8>>, MimeError> {
    let whole = read(boundary, package, &[usize::MAX]);
    for length in 1..=80.min(package.len()) {
        assert_eq!(read(boundary, package, &[length]), whole, "in pieces of {length}");
    }
    whole.map(|parts| parts.into_iter().map(|(_, body)| body).collect())
}

fn check(package: &str, expected: &[&str]) {
    let got = bodies("b", package.as_bytes()).unwrap();
    let got: Vec<_> = got.iter().map(|body| String::from_utf8_lossy(body).into_owned()).collect();
    assert_eq!(got, expected, "{package:?}");
}

#[test]
fn a_package_with_everything_that_rfc_2046_allows_is_read() {
    check("--b\r\n\r\nx\r\n--b--\r\n", &["x"]);
    check("\r\n--b\r\n\r\nx\r\n--b--", &["x"]);
    check(
        "pre\r\namble\r\n--b \t \r\nA: c\r\n\r\nx\r\n--b\r\n\r\ny\r\n--b-- \t\r\nepilogue --b",
        &["x", "y"],
    );
    check("--b\r\n\r\nx\r\n--b--\r", &["x"]);
    check("--b\r\n\r\nx\r\n--b-- ", &["x"]);
}

#[test]
fn bodies_are_empty_with_and_without_a_line_end_of_their_own() {
    check("--b\r\n\r\n\r\n--b\r\nX: y\r\n\r\n--b\r\n\r\n--b--", &["", "", ""]);
}

#[test]
fn line_ends_in_bodies_are_kept() {
    check("--b\r\n\r\n\r\n\r\n--b\r\n\r\na\n\r\n--b\r\n\r\n\ra\r\r\n--b--", &["\r\n", "a\n", "\ra\r"]);
}

#[test]
fn bare_line_feeds_end_header_lines_only() {
    check("--b\r\nA: x\nB: y\n\nbody\n--b\n\r\n--b\n\nz\r\n--b--\n", &["body\n--b\n", "z"]);
}

#[test]
fn what_only_begins_like_a_delimiter_is_data() {
    check(
        "--b\r\n\r\n--b2\r\n--b--x\r\n--b-\r\n-- b\r\n--b \r\r\n--b--\rx\r\n--b\r\r\n--b--",
        &["--b2\r\n--b--x\r\n--b-\r\n-- b\r\n--b \r\r\n--b--\rx\r\n--b\r"],
    );
    check("--b0\r\nA: x\r\n\r\nno part\r\n\r\n--b\r\n\r\nx\r\n--b--", &["x"]);
}

#[test]
fn dashes_in_the_boundary_do_not_confuse() {
    let package = b"----\r\n\r\n--\r\n---\r\n------\r\n";
    assert_eq!(bodies("--", package), Ok(vec![b"--\r\n---".to_vec()]));
}

#[test]
fn every_transfer_encoding_is_undone() {
    check("--b\r\nContent-Transfer-Encoding: base64\r\n\r\nb25l\r\nUA==\r\n\r\n--b--", &["oneP"]);
    check("--b\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\na=3D=\r\nb\r\n\r\n--b--", &["a=b\r\n"]);
    check("--b\r\nContent-Transfer-Encoding: 7Bit\r\n\r\n=3D\r\n--b--", &["=3D"]);
    let half = bodies("b", b"--b\r\nContent-Transfer-Encoding: base64\r\n\r\nb25\r\n--b--");
    assert_eq!(half, Err(MimeError::Encoding("base64")));
}

#[test]
fn a_package_that_does_not_end_is_refused() {
    for package in [
        "",
        "--b",
        "--b\r\n",
        "--b\r\n\r\nx",
        "--b\r\n\r\nx\r\n--b",
        "--b\r\n\r\nx\r\n--b-",
        "--b\r\nA: b\r\n",
    ] {
        assert_eq!(bodies("b", package.as_bytes()), Err(MimeError::NoClosingDelimiter), "{package:?}");
    }
    assert_eq!(bodies("b", b"--b--\r\n"), Err(MimeError::NoParts));
    assert_eq!(bodies("b", b"--b--"), Err(MimeError::NoParts));
}

#[test]
fn content_ids_must_differ_even_when_decoded() {
    let package = |one: &str, two: &str| {
        let text = format!("--b\r\nContent-ID: {one}\r\n\r\n\r\n--b\r\nContent-ID: {two}\r\n\r\n\r\n--b--");
        bodies("b", text.as_bytes()).map(|parts| parts.len())
    };
    assert_eq!(package("<a@b>", "<A@b>"), Ok(2));
    assert_eq!(package("<a@b>", "a@b"), Err(MimeError::DuplicateContentId("a@b".into())));
    assert_eq!(package("<a@b>", "<a%40b>"), Err(MimeError::DuplicateContentId("a%40b".into())));
}

#[test]
fn parts_fit_at_the_limit_and_not_beyond() {
    let parts = |n: usize| format!("{}--b--", "--b\r\n\r\nx\r\n".repeat(n));
    let limit = super::reader::PARTS_MAX;
    assert_eq!(bodies("b", parts(limit).as_bytes()).map(|p| p.len()), Ok(limit));
    assert_eq!(bodies("b", parts(limit + 1).as_bytes()), Err(MimeError::TooManyParts(limit)));
}

#[test]
fn headers_fit_at_the_limits_and_not_beyond() {
    use super::reader::{HEADER_BYTES_MAX, HEADER_LINE_BYTES_MAX};
    let header = |bytes: usize| format!("A: {}\r\n", "x".repeat(bytes - 5));
    let package = |headers: &str| bodies("b", format!("--b\r\n{headers}\r\n\r\n--b--").as_bytes());
    assert!(package(&header(HEADER_LINE_BYTES_MAX)).is_ok());
    let line = package(&header(HEADER_LINE_BYTES_MAX + 1));
    assert_eq!(line, Err(MimeError::HeaderLineTooLong(HEADER_LINE_BYTES_MAX)));
    let block = |bytes: usize| header(bytes - 2 - 4096) + &header(4096);
    assert!(package(&block(HEADER_BYTES_MAX)).is_ok());
    assert_eq!(package(&block(HEADER_BYTES_MAX + 1)), Err(MimeError::HeaderTooLong(HEADER_BYTES_MAX)));
}

#[test]
fn blanks_behind_a_boundary_fit_at_the_limit_and_not_beyond() {
    let limit = super::reader::DELIMITER_BLANKS_MAX;
    let package = |blanks: usize| format!("--b\r\n\r\nx\r\n--b--{}\r\n", " ".repeat(blanks));
    assert!(bodies("b", package(limit).as_bytes()).is_ok());
    assert_eq!(bodies("b", package(limit + 1).as_bytes()), Err(MimeError::DelimiterLine(limit)));
    let opening = |blanks: usize| format!("--b{}\r\n\r\nx\r\n--b--", " ".repeat(blanks));
    assert!(bodies("b", opening(limit).as_bytes()).is_ok());
    assert_eq!(bodies("b", opening(limit + 1).as_bytes()), Err(MimeError::DelimiterLine(limit)));
}

/// Bodies made of what delimiters are made of, so that near misses are common.
fn awkward_bytes() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        &b"\r"[..],
        b"\n",
        b"\r\n",
        b"-",
        b"--",
        b"b",
        b"\r\n--",
        b"\r\n--b2",
        b"\r\n--b--x",
        b"\r\n--b -",
        b" ",
        b"\t",
        b"\r\n--b\r",
        b"\0\xFF",
        b"text",
    ]);
    prop::collection::vec(pieces, 0..24).prop_map(|pieces| pieces.concat())
}

/// Whether a body holds a line that is a delimiter of `b`.
fn holds_delimiter(body: &[u8]) -> bool {
    let lines = [b"\r\n", body, b"\r\n"].concat();
    (0..lines.len()).filter_map(|at| lines[at..].strip_prefix(b"\r\n--b")).any(|rest| {
        let rest = rest.strip_prefix(b"--").unwrap_or(rest);
        let blanks = rest.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
        rest[blanks..].starts_with(b"\r\n") || rest[blanks..].starts_with(b"\n")
    })
}

proptest! {
    #[test]
    fn bodies_come_out_as_they_went_in(
        written in prop::collection::vec(awkward_bytes(), 1..4),
        pieces in prop::collection::vec(1..40_usize, 1..8),
    ) {
        prop_assume!(!written.iter().any(|body| holds_delimiter(body)));
        let mut package = b"preamble".to_vec();
        for body in &written {
            package.extend_from_slice(b"\r\n--b\r\nX: y\r\n\r\n");
            package.extend_from_slice(body);
        }
        package.extend_from_slice(b"\r\n--b--");
        let parts = read("b", &package, &pieces).unwrap();
        let got: Vec<_> = parts.into_iter().map(|(_, body)| body).collect();
        prop_assert_eq!(got, written);
    }

    #[test]
    fn pieces_never_change_the_result(
        soup in awkward_bytes(),
        pieces in prop::collection::vec(1..20_usize, 1..8),
    ) {
        let package = [b"--b\r\n\r\n", &soup[..], b"\r\n--b--"].concat();
        prop_assert_eq!(read("b", &package, &pieces), read("b", &package, &[usize::MAX]));
    }
}
