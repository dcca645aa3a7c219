//! `oncepoint inbox` and `oncepoint message`: the connector from a shell.

use std::{fs::File, io::Write as _, path::Path};

use reqwest::Method;
use serde_json::{Value, json};

use super::{
    CliError, ConnectorArgs, InboxCommand,
    connector::{Connector, block_on},
    output::Output,
};

pub(super) fn run(command: InboxCommand, output: &Output) -> Result<(), CliError> {
    match command {
        InboxCommand::List { connector, state, limit } => list(&connector, state.as_deref(), limit, output),
        InboxCommand::Claim { connector, max, lease, wait } => {
            let body = json!({ "max": max, "lease_s": lease, "wait_s": wait });
            let answer = call(&connector, "/v1/inbound/claim", &body)?;
            output.result(&items(&answer, leased_line), &answer)
        }
        InboxCommand::Get { connector, id, sbd, output: to } => {
            get(&connector, &id, if sbd { "sbd" } else { "document" }, to.as_deref(), output)
        }
        InboxCommand::Ack { connector, id, lease, external_ref } => {
            let body = json!([{ "id": id, "lease": lease, "external_ref": external_ref }]);
            results(&call(&connector, "/v1/inbound/ack", &body)?, output)
        }
        InboxCommand::Nack { connector, id, lease, reason, delay, dead } => {
            let body =
                json!([{ "id": id, "lease": lease, "reason": reason, "delay_s": delay, "dead": dead }]);
            results(&call(&connector, "/v1/inbound/nack", &body)?, output)
        }
        InboxCommand::Requeue { connector, id } => {
            let answer = call(&connector, &format!("/v1/inbound/{}/requeue", path_part(&id)?), &json!({}))?;
            output.result(&[format!("{id} requeued")], &answer)
        }
    }
}

pub(super) fn show(args: &ConnectorArgs, id: &str, output: &Output) -> Result<(), CliError> {
    let id = path_part(id)?;
    let connector = Connector::new(args)?;
    let (item, events) = block_on(async {
        let item = connector.json(Method::GET, &format!("/v1/inbound/{id}"), None).await?;
        let events = connector.json(Method::GET, &format!("/v1/inbound/{id}/events"), None).await?;
        Ok((item, events))
    })?;
    let mut lines = fields(&item);
    lines.push(String::new());
    lines.extend(items(&events, |event| fields(event).join("  ")));
    output.result(&lines, &json!({ "item": item, "events": events }))
}

fn list(args: &ConnectorArgs, state: Option<&str>, limit: u32, output: &Output) -> Result<(), CliError> {
    let state =
        state.map(|state| path_part(state).map(|s| format!("&state={s}"))).transpose()?.unwrap_or_default();
    let connector = Connector::new(args)?;
    let path = format!("/v1/inbound?limit={limit}{state}");
    let answer = block_on(connector.json(Method::GET, &path, None))?;
    let mut lines = items(&answer, listed_line);
    if let Some(cursor) = answer.get("next_cursor").and_then(Value::as_str) {
        lines.push(format!("more: cursor {cursor}"));
    }
    output.result(&lines, &answer)
}

fn get(
    args: &ConnectorArgs,
    id: &str,
    what: &str,
    to: Option<&Path>,
    output: &Output,
) -> Result<(), CliError> {
    let path = format!("/v1/inbound/{}/{what}", path_part(id)?);
    let connector = Connector::new(args)?;
    let mut file =
        to.map(|path| File::create_new(path).map_err(|e| CliError::failed(path.display(), e))).transpose()?;
    block_on(async {
        let mut response = connector.get(&path).await?;
        while let Some(chunk) =
            response.chunk().await.map_err(|e| CliError::failed("the answer broke off", e))?
        {
            match &mut file {
                Some(file) => file.write_all(&chunk).map_err(|e| CliError::failed("cannot write", e))?,
                None => output.bytes(&chunk)?,
            }
        }
        Ok(())
    })
}

fn call(args: &ConnectorArgs, path: &str, body: &Value) -> Result<Value, CliError> {
    let connector = Connector::new(args)?;
    block_on(connector.json(Method::POST, path, Some(body)))
}

/// An id or state becomes part of a path as it is, so it must not be able to name another one.
fn path_part(text: &str) -> Result<&str, CliError> {
    let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    plain.then_some(text).ok_or_else(|| CliError::Usage(format!("{text:?} is no id")))
}

fn items(answer: &Value, line: impl Fn(&Value) -> String) -> Vec<String> {
    answer
        .get("items")
        .and_then(Value::as_array)
        .map_or_else(Vec::new, |list| list.iter().map(line).collect())
}

fn results(answer: &Value, output: &Output) -> Result<(), CliError> {
    let list = answer.get("results").and_then(Value::as_array).cloned().unwrap_or_default();
    let lines: Vec<_> = list.iter().map(|r| format!("{} {}", text(r, "id"), text(r, "result"))).collect();
    output.result(&lines, answer)?;
    let lost = |r: &Value| matches!(text(r, "result").as_str(), "lease_superseded" | "unknown");
    if list.iter().any(lost) {
        return Err(CliError::Failed("the item is not ours any more".to_owned()));
    }
    Ok(())
}

fn text(value: &Value, name: &str) -> String {
    match value.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => "-".to_owned(),
        Some(other) => other.to_string(),
    }
}

fn listed_line(item: &Value) -> String {
    let columns = ["id", "state", "received_at", "sender", "receiver", "message_id"];
    columns.map(|name| text(item, name)).join("  ")
}

fn leased_line(item: &Value) -> String {
    ["id", "lease", "size", "sha256", "message_id"].map(|name| text(item, name)).join("  ")
}

fn fields(value: &Value) -> Vec<String> {
    let map = value.as_object().cloned().unwrap_or_default();
    map.iter()
        .filter(|(_, v)| !v.is_null())
        .map(|(name, _)| format!("{name} {}", text(value, name)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_cannot_name_another_path() {
        assert!(path_part("0199-ab_c").is_ok());
        for wrong in ["", "../metrics", "a/b", "a?b", "a%2f"] {
            assert!(path_part(wrong).is_err(), "{wrong}");
        }
    }
}
