//! A backend in forty lines: claim, fetch, store once, acknowledge.
//!
//! `cargo run --example pull -- http://127.0.0.1:8080 inbox-folder`
//!
//! Delivery is at least once, the item id is stable: whoever stores under the id, as this does with the file
//! name, has each document once.

use std::{error::Error, fs, path::PathBuf};

use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let base = arguments.next().unwrap_or_else(|| "http://127.0.0.1:8080".to_owned());
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "inbox".to_owned()));
    fs::create_dir_all(&folder)?;
    let http = reqwest::Client::new();
    loop {
        let wanted = json!({ "max": 10, "lease_s": 60, "wait_s": 30 });
        let claim =
            http.post(format!("{base}/v1/inbound/claim")).json(&wanted).send().await?.error_for_status()?;
        let claimed: Value = claim.json().await?;
        for item in claimed.get("items").and_then(Value::as_array).into_iter().flatten() {
            let text = |name| item.get(name).and_then(Value::as_str);
            let (Some(id), Some(lease)) = (text("id"), text("lease")) else { continue };
            let document =
                http.get(format!("{base}/v1/inbound/{id}/document")).send().await?.error_for_status()?;
            store_once(&folder, id, &document.bytes().await?)?;
            let ack = json!([{ "id": id, "lease": lease, "external_ref": format!("{id}.xml") }]);
            http.post(format!("{base}/v1/inbound/ack")).json(&ack).send().await?.error_for_status()?;
        }
    }
}

/// The file appears whole or not at all, and is on disk before the acknowledgement.
fn store_once(folder: &std::path::Path, id: &str, document: &[u8]) -> std::io::Result<()> {
    let (partial, whole) = (folder.join(format!(".{id}.part")), folder.join(format!("{id}.xml")));
    fs::write(&partial, document)?;
    fs::File::open(&partial)?.sync_all()?;
    fs::rename(&partial, &whole)?;
    fs::File::open(folder)?.sync_all()
}
