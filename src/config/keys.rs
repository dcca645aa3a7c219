//! `connector-keys.toml`: who may use the connector. Only the SHA-256 of each key is in the file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::ConfigError;
use crate::model::{Digest, Tenant};

/// What a key may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyScope {
    /// Submit documents.
    Send,
    /// Claim, fetch, acknowledge.
    Receive,
    /// List and look.
    Read,
    /// Requeue and other operator actions.
    Operate,
}

/// One key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConnectorKey {
    /// Its name in logs and audit.
    pub name: String,
    /// SHA-256 of the key, in hexadecimal: `printf %s "$KEY" | sha256sum`.
    pub sha256: Digest,
    /// What it may do.
    pub scopes: Vec<KeyScope>,
    /// Whose documents; none: of every tenant.
    #[serde(default)]
    pub tenant: Option<Tenant>,
    /// Which participants' documents (`scheme::value`); empty: all.
    #[serde(default)]
    pub participants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyFile {
    keys: Vec<ConnectorKey>,
}

/// Reads the file.
///
/// # Errors
/// When it is not there, not TOML, has an unknown key, no keys, two keys of one name, or one without scope.
pub fn load(path: &Path) -> Result<Vec<ConnectorKey>, ConfigError> {
    let bytes = super::read(path)?;
    parse(&String::from_utf8_lossy(&bytes), path)
}

fn parse(text: &str, path: &Path) -> Result<Vec<ConnectorKey>, ConfigError> {
    let syntax = |message: String| ConfigError::Syntax { path: path.into(), message };
    let file: KeyFile = toml::from_str(text).map_err(|e| syntax(e.to_string()))?;
    if file.keys.is_empty() {
        return Err(syntax("no [[keys]]: nobody could use the connector".to_owned()));
    }
    for (index, key) in file.keys.iter().enumerate() {
        if key.scopes.is_empty() {
            return Err(syntax(format!("key {:?}: scopes is empty, it may do nothing", key.name)));
        }
        if file.keys.iter().take(index).any(|other| other.name == key.name) {
            return Err(syntax(format!("key {:?}: the name is used twice", key.name)));
        }
    }
    Ok(file.keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, words: &str) {
        let message = parse(text, Path::new("connector-keys.toml")).expect_err(words).to_string();
        assert!(message.contains(words), "{message}");
    }

    #[test]
    fn keys_are_read_with_their_scopes() {
        let sha256 = Digest::of(b"secret");
        let text =
            format!("[[keys]]\nname = \"erp\"\nsha256 = \"{sha256}\"\nscopes = [\"receive\", \"read\"]");
        let keys = parse(&text, Path::new("x")).unwrap();
        assert_eq!(keys[0].sha256, sha256);
        assert_eq!(keys[0].scopes, [KeyScope::Receive, KeyScope::Read]);
    }

    #[test]
    fn what_would_lock_everybody_out_is_refused() {
        let key = |name: &str, scopes: &str| {
            format!("[[keys]]\nname = \"{name}\"\nsha256 = \"{}\"\nscopes = {scopes}\n", Digest::of(b"x"))
        };
        check("keys = []", "nobody");
        check(&key("a", "[]"), "may do nothing");
        check(&(key("a", "[\"read\"]") + &key("a", "[\"read\"]")), "used twice");
        check(&key("a", "[\"everything\"]"), "everything");
        check("[[keys]]\nname = \"a\"\nsha256 = \"secret\"\nscopes = [\"read\"]", "SHA-256");
    }
}
