//! `oncepoint.toml`: read once, checked as a whole, every path made absolute.
//!
//! A configuration that breaks a rule is refused before anything is opened, with the key, the value and
//! the rule; nothing is repaired silently.

pub mod file;
pub mod keys;
pub mod value;

mod service;
mod site;

mod environment;
mod template;

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use file::{File, Revocation, Stage};
pub use service::{replace_tls, service, tls};
pub use site::{connector_keys, revocation, site};
pub use template::{participants_template, template};
use value::Duration;

use crate::model::Span;

/// Shortest window outside stage local (`duplicates` §1).
pub const WINDOW_MIN: Span = Span::days(30);
/// Longest window: longer ones mean "for ever", which no disk keeps.
pub const WINDOW_MAX: Span = Span::days(3650);
/// Smallest journal segment, in bytes.
pub const SEGMENT_BYTES_MIN: u64 = 64 << 10;
/// Largest journal segment, in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 1 << 30;

/// Why a configuration is not taken.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file that cannot be read.
    #[error("{}: cannot read it: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Not TOML, an unknown key, or a value of the wrong kind.
    #[error("{}: {message}", path.display())]
    Syntax {
        /// Which file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// A key whose value breaks a rule.
    #[error("{key}: {rule} (found {found})")]
    Rule {
        /// The key, with its section.
        key: &'static str,
        /// The rule.
        rule: &'static str,
        /// What stands there.
        found: String,
    },
}

/// A checked configuration; relative paths are taken from the folder of its file.
#[derive(Debug, Clone)]
pub struct Config {
    /// The values in force: file, defaults and environment.
    pub file: File,
    /// Where the AS4 endpoint listens.
    pub as4_listen: SocketAddr,
    /// Where the connector listens.
    pub connector_listen: SocketAddr,
}

impl Config {
    /// Reads `path`, puts the overrides of the environment over it and checks every rule.
    ///
    /// # Errors
    /// When the file cannot be read, is not TOML, has an unknown key, or a value breaks a rule.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text =
            fs::read_to_string(path).map_err(|source| ConfigError::Read { path: path.into(), source })?;
        let folder = path.parent().map_or_else(PathBuf::new, Path::to_owned);
        Self::from_text(&text, path, &folder, std::env::vars())
    }

    /// As [`Config::load`], from a text.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn from_text(
        text: &str,
        path: &Path,
        folder: &Path,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let syntax = |message: String| ConfigError::Syntax { path: path.into(), message };
        // The file alone first: its own errors then come with line and column.
        let alone: Result<File, _> = toml::from_str(text);
        let mut table: toml::Table = toml::from_str(text).map_err(|e| syntax(e.to_string()))?;
        let before = table.clone();
        environment::override_with(&mut table, variables);
        let mut file = match alone {
            Err(e) if before == table => return Err(syntax(e.to_string())),
            Ok(file) if before == table => file,
            _ => table.try_into().map_err(|e: toml::de::Error| syntax(e.message().to_owned()))?,
        };
        absolute(&mut file, folder);
        check(file)
    }
}

/// A secret is a file unless it says `env:` or `pkcs11:`; `file:` is the long form.
///
/// # Errors
/// When the variable or the file is not there, or the value names a token.
pub fn read_secret(key: &'static str, value: &str) -> Result<Vec<u8>, ConfigError> {
    if let Some(name) = value.strip_prefix("env:") {
        return std::env::var(name).map(String::into_bytes).map_err(|_| ConfigError::Rule {
            key,
            rule: "the variable it names must be set",
            found: value.to_owned(),
        });
    }
    if value.starts_with("pkcs11:") {
        let rule = "keys on a token are not supported by this version; use a PEM file";
        return Err(ConfigError::Rule { key, rule, found: value.to_owned() });
    }
    read(Path::new(value.strip_prefix("file:").unwrap_or(value)))
}

/// Reads a file that the configuration names.
///
/// # Errors
/// With the path, when it cannot be read.
pub fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    fs::read(path).map_err(|source| ConfigError::Read { path: path.into(), source })
}

fn absolute(file: &mut File, folder: &Path) {
    let fix = |path: &mut PathBuf| *path = folder.join(&*path);
    let fix_secret = |value: &mut String| {
        if !value.starts_with("env:") && !value.starts_with("pkcs11:") {
            let plain = value.strip_prefix("file:").unwrap_or(value);
            *value = folder.join(plain).to_string_lossy().into_owned();
        }
    };
    fix(&mut file.node.data_dir);
    fix(&mut file.pmodes.dir);
    file.participants.file.iter_mut().for_each(fix);
    file.connector.keys.iter_mut().for_each(fix);
    if let Some(tls) = &mut file.as4.tls {
        fix(&mut tls.cert);
        fix_secret(&mut tls.key);
    }
    let identities = match &mut file.identity {
        file::OneOrMany::One(one) => std::slice::from_mut(one),
        file::OneOrMany::Many(many) => many,
    };
    for identity in identities {
        fix(&mut identity.cert);
        fix_secret(&mut identity.key);
    }
    let trust = &mut file.trust;
    for list in [&mut trust.roots, &mut trust.ap_ca, &mut trust.smp_ca, &mut trust.crls] {
        list.iter_mut().for_each(fix);
    }
    file.discovery.fixed.iter_mut().for_each(|endpoint| fix(&mut endpoint.cert));
}

fn check(file: File) -> Result<Config, ConfigError> {
    let as4_listen = address("as4.listen", &file.as4.listen)?;
    let connector_listen = address("connector.listen", &file.connector.listen)?;
    check_listeners(&file, as4_listen, connector_listen)?;
    check_stage(&file)?;
    check_windows(&file)?;
    check_sizes(&file)?;
    Ok(Config { file, as4_listen, connector_listen })
}

fn address(key: &'static str, text: &str) -> Result<SocketAddr, ConfigError> {
    text.parse().map_err(|_| broken(key, "must be ADDRESS:PORT, like 0.0.0.0:8443", text))
}

fn broken(key: &'static str, rule: &'static str, found: impl std::fmt::Display) -> ConfigError {
    ConfigError::Rule { key, rule, found: found.to_string() }
}

fn check_listeners(file: &File, as4: SocketAddr, connector: SocketAddr) -> Result<(), ConfigError> {
    if file.as4.tls.is_none() && !file.as4.behind_proxy && !as4.ip().is_loopback() {
        return Err(broken("as4.tls", "plain HTTP only on loopback or with behind_proxy = true", as4));
    }
    if file.connector.keys.is_none() && !connector.ip().is_loopback() {
        return Err(broken(
            "connector.keys",
            "without keys the connector listens on loopback only",
            connector,
        ));
    }
    if !file.as4.path.starts_with('/') {
        return Err(broken("as4.path", "must begin with /", &file.as4.path));
    }
    if file.identity.as_slice().is_empty() {
        return Err(broken("identity", "at least one seat is needed", "none"));
    }
    Ok(())
}

fn check_stage(file: &File) -> Result<(), ConfigError> {
    let local = file.node.stage == Stage::Local;
    if file.trust.revocation == Revocation::Off && !local {
        return Err(broken("trust.revocation", "off only in stage local", "off"));
    }
    if file.participants.any && !local {
        return Err(broken("participants.any", "true only in stage local", "true"));
    }
    if file.participants.any == file.participants.file.is_some() {
        return Err(broken("participants", "needs either file or any = true", file.participants.any));
    }
    if !file.discovery.fixed.is_empty() && file.node.stage == Stage::Production {
        return Err(broken("discovery.static", "only in stages local and test", "endpoints"));
    }
    if file.trust.roots.is_empty() || file.trust.ap_ca.is_empty() {
        return Err(broken("trust", "roots and ap_ca each name at least one file", "none"));
    }
    Ok(())
}

fn check_windows(file: &File) -> Result<(), ConfigError> {
    let local = file.node.stage == Stage::Local;
    let check = |key, window: Duration| match window.span() {
        span if span > WINDOW_MAX => Err(broken(key, "at most 3650d: an id is not kept for ever", window)),
        span if span < WINDOW_MIN && !local => Err(broken(key, "at least 30d outside stage local", window)),
        _ => Ok(()),
    };
    check("dedup.window", file.dedup.window)?;
    check("dedup.financial_window", file.dedup.financial_window)
}

fn check_sizes(file: &File) -> Result<(), ConfigError> {
    let segment = file.store.segment;
    if !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&segment.bytes()) {
        return Err(broken("store.segment", "between 64KiB and 1GiB", segment));
    }
    if file.as4.max_ratio == 0 {
        return Err(broken("as4.max_ratio", "at least 1", 0));
    }
    if file.as4.max_connections == 0 {
        return Err(broken("as4.max_connections", "at least 1", 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
