//! `evidence`: a ZIP of what proves that a message was received.

use std::io::{Cursor, Write as _};

use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Response, header},
};
use openssl::x509::X509;
use zip::{ZipWriter, result::ZipError, write::SimpleFileOptions};

use super::{AccessScope, Answered, Problem, Shared, view, visible_item};
use crate::{
    security::trust::BehindCertificate,
    store::{Evidence, Item},
};

pub(super) async fn evidence(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Read, &id)?;
    let evidence = parts.store.evidence(item.id)?;
    let behind = (parts.behind)(&evidence.certificate);
    let bytes = archive(&item, &evidence, &behind).map_err(|error| {
        tracing::error!(%error, "the evidence could not be packed");
        Problem::damaged()
    })?;
    let mut response = Response::new(Body::from(bytes));
    let set = response.headers_mut();
    set.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/zip"));
    if let Ok(name) = HeaderValue::from_str(&format!("attachment; filename=\"evidence-{}.zip\"", item.id)) {
        set.insert(header::CONTENT_DISPOSITION, name);
    }
    Ok(response)
}

fn archive(item: &Item, evidence: &Evidence, behind: &BehindCertificate) -> Result<Vec<u8>, ZipError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let mut file = |name: &str, bytes: &[u8]| -> Result<(), ZipError> {
        zip.start_file(
            name,
            SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored),
        )?;
        Ok(zip.write_all(bytes)?)
    };
    let lines: Vec<_> = evidence.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    file("request-headers.txt", lines.concat().as_bytes())?;
    file("request-envelope.xml", &evidence.envelope)?;
    file("signer.der", &evidence.certificate)?;
    if let Some(pem) = X509::from_der(&evidence.certificate).ok().and_then(|one| one.to_pem().ok()) {
        file("signer.pem", &pem)?;
    }
    for (number, certificate) in (1..).zip(&behind.chain) {
        file(&format!("chain-{number}.der"), certificate)?;
    }
    // The lists that are held now; those of the day of acceptance are not kept.
    for (number, list) in (1..).zip(&behind.lists) {
        file(&format!("revocation-now-{number}.crl"), list)?;
    }
    if let Some(answer) = &evidence.answer {
        let content_type = answer.content_type.as_deref().unwrap_or("-");
        file("receipt.xml", &answer.body)?;
        file(
            "receipt-headers.txt",
            format!("{}\r\nContent-Type: {content_type}\r\n", answer.status).as_bytes(),
        )?;
    }
    file("item.json", format!("{:#}\n", view::item(item)).as_bytes())?;
    Ok(zip.finish()?.into_inner())
}
