//! A small client of the connector API.

use std::path::PathBuf;

use reqwest::{Method, Response};
use serde_json::Value;

use super::{CliError, ConnectorArgs};
use crate::config::{self, Config};

/// Where the connector is and the key to it.
pub(super) struct Connector {
    base: String,
    key: Option<String>,
    client: reqwest::Client,
}

impl Connector {
    /// From `--connector URL --key K`, or from the configuration.
    pub(super) fn new(args: &ConnectorArgs) -> Result<Self, CliError> {
        let base = match (&args.connector, &args.config) {
            (Some(url), _) => url.trim_end_matches('/').to_owned(),
            (None, Some(path)) => configured(path)?,
            (None, None) => configured(&PathBuf::from("oncepoint.toml"))?,
        };
        let key = args.key.as_deref().map(secret).transpose()?;
        let client = reqwest::Client::builder().build().map_err(|e| CliError::failed("HTTP client", e))?;
        Ok(Self { base, key, client })
    }

    /// A call whose answer is JSON.
    pub(super) async fn json(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let response = self.send(method, path, body).await?;
        response.json().await.map_err(|e| CliError::failed("the connector's answer is no JSON", e))
    }

    /// A call whose answer is a document.
    pub(super) async fn get(&self, path: &str) -> Result<Response, CliError> {
        self.send(Method::GET, path, None).await
    }

    async fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Response, CliError> {
        let url = format!("{}{path}", self.base);
        let mut request = self.client.request(method, &url);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|e| CliError::failed(&url, sources(&e)))?;
        if response.status().is_success() {
            return Ok(response);
        }
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        Err(CliError::failed(format!("{url} answers {status}"), problem(&text)))
    }
}

/// A reqwest error says little by itself; its sources say why.
fn sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(source) = next {
        text = format!("{text}: {source}");
        next = source.source();
    }
    text
}

fn problem(text: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(text).ok();
    let field = |name: &str| parsed.as_ref()?.get(name)?.as_str().map(str::to_owned);
    field("detail").or_else(|| field("title")).unwrap_or_else(|| text.chars().take(200).collect())
}

fn configured(path: &std::path::Path) -> Result<String, CliError> {
    Ok(format!("http://{}", Config::load(path)?.connector_listen))
}

fn secret(text: &str) -> Result<String, CliError> {
    if !text.starts_with("env:") && !text.starts_with("file:") {
        return Ok(text.to_owned());
    }
    let bytes = config::read_secret("--key", text)?;
    String::from_utf8(bytes).map(|key| key.trim().to_owned()).map_err(|e| CliError::failed("--key", e))
}

/// Runs a future to its end; the commands need no more threads than this one.
pub(super) fn block_on<T>(future: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|e| CliError::failed("runtime", e))?.block_on(future)
}
