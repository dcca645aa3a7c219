//! From a checked configuration to what the service is started with: keys, anchors, P-Modes, participants.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Config, ConfigError, file::Revocation as RevocationKey, read, read_secret};
use crate::{
    exchange::{Identity, PayloadLimits, Site},
    model::{ParticipantId, Tenant},
    peppol::Participants,
    pmode::{Defaults, DuplicatePolicy, PModes},
    security::{
        key::OwnKey,
        revocation::{Revocation, RevocationMode},
        trust::{Trust, TrustAnchors},
    },
    service::connector::{AccessKey, AccessScope, ConnectorKeys},
};

/// Everything that decisions depend on besides the message.
///
/// # Errors
/// When a file cannot be read or does not hold what the key says.
pub fn site(config: &Config) -> Result<Site, ConfigError> {
    Ok(Site {
        identities: identities(config)?,
        pmodes: pmodes(config)?,
        trust: trust(config)?,
        participants: participants(config)?,
        limits: PayloadLimits {
            payload_bytes_max: config.file.as4.max_payload.bytes(),
            ratio_max: config.file.as4.max_ratio,
        },
    })
}

fn wrong(path: &Path, message: impl std::fmt::Display) -> ConfigError {
    ConfigError::Syntax { path: path.to_owned(), message: message.to_string() }
}

fn identities(config: &Config) -> Result<Vec<Arc<Identity>>, ConfigError> {
    let mut identities: Vec<Arc<Identity>> = Vec::new();
    for entry in config.file.identity.as_slice() {
        let key = read_secret("identity.key", &entry.key)?;
        let key = OwnKey::from_pem(&read(&entry.cert)?, &key).map_err(|error| wrong(&entry.cert, error))?;
        let tenant = match &entry.tenant {
            Some(name) => Tenant::parse(name).map_err(|error| wrong(&entry.cert, error))?,
            None => Tenant::default_tenant(),
        };
        if identities.iter().any(|other| other.key.seat() == key.seat()) {
            return Err(wrong(
                &entry.cert,
                format!("the seat {} has another [[identity]] already", key.seat()),
            ));
        }
        identities.push(Arc::new(Identity { key: Arc::new(key), tenant }));
    }
    Ok(identities)
}

fn pmodes(config: &Config) -> Result<PModes, ConfigError> {
    let folder = &config.file.pmodes.dir;
    let unreadable = |source| ConfigError::Read { path: folder.clone(), source };
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|extension| extension == "toml") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut texts = Vec::with_capacity(paths.len());
    for path in &paths {
        texts.push((path.display().to_string(), text(path)?));
    }
    if texts.is_empty() {
        return Err(wrong(folder, "there is no P-Mode (*.toml): nothing could be received"));
    }
    let named: Vec<_> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    PModes::from_texts(&named, &defaults(config)).map_err(|error| wrong(folder, error))
}

fn defaults(config: &Config) -> Defaults {
    let dedup = &config.file.dedup;
    let duplicates = DuplicatePolicy {
        scope: dedup.scope,
        window: dedup.window.span(),
        financial_window: dedup.financial_window.span(),
        takeover_after: dedup.takeover_after.span(),
        in_progress_wait: config.file.as4.in_progress_wait.span(),
        ..DuplicatePolicy::default()
    };
    Defaults { stage: config.file.node.stage, duplicates }
}

fn text(path: &Path) -> Result<String, ConfigError> {
    String::from_utf8(read(path)?).map_err(|_| wrong(path, "not UTF-8"))
}

fn participants(config: &Config) -> Result<Participants, ConfigError> {
    match &config.file.participants.file {
        Some(path) => {
            Participants::parse(&text(path)?, config.file.node.stage).map_err(|error| wrong(path, error))
        }
        None => Ok(Participants::Any),
    }
}

fn trust(config: &Config) -> Result<Trust, ConfigError> {
    let files = |paths: &[PathBuf]| paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>();
    let (roots, cas) = (files(&config.file.trust.roots)?, files(&config.file.trust.ap_ca)?);
    let anchors = TrustAnchors::from_pem(roots.iter().map(Vec::as_slice), cas.iter().map(Vec::as_slice))
        .map_err(|error| ConfigError::Rule {
            key: "trust",
            rule: "roots and ap_ca must be certificates, and each ap_ca must chain to a root",
            found: error.to_string(),
        })?;
    Ok(Trust::new(anchors, &revocation(config)?))
}

/// The revocation lists of the configuration, read anew.
///
/// # Errors
/// When a file cannot be read or is no complete list.
pub fn revocation(config: &Config) -> Result<Revocation, ConfigError> {
    let mode = match config.file.trust.revocation {
        RevocationKey::Hard => RevocationMode::Hard,
        RevocationKey::Soft => RevocationMode::Soft,
        RevocationKey::Off => RevocationMode::Off,
    };
    let mut revocation = Revocation::new(mode);
    for path in &config.file.trust.crls {
        revocation.add_lists(&read(path)?).map_err(|error| wrong(path, error))?;
    }
    Ok(revocation)
}

/// Who may use the connector.
///
/// # Errors
/// When the key file cannot be read or is wrong.
pub fn connector_keys(config: &Config) -> Result<ConnectorKeys, ConfigError> {
    let Some(path) = &config.file.connector.keys else { return Ok(ConnectorKeys::Loopback) };
    let mut keys = Vec::new();
    for key in super::keys::load(path)? {
        let participants = key.participants.iter().map(|id| ParticipantId::parse(id));
        keys.push(AccessKey {
            participants: participants.collect::<Result<_, _>>().map_err(|error| wrong(path, error))?,
            scopes: key.scopes.iter().copied().map(scope).collect(),
            name: key.name,
            sha256: key.sha256,
            tenant: key.tenant,
        });
    }
    Ok(ConnectorKeys::Keys(keys))
}

const fn scope(scope: super::keys::KeyScope) -> AccessScope {
    use super::keys::KeyScope;
    match scope {
        KeyScope::Send => AccessScope::Send,
        KeyScope::Receive => AccessScope::Receive,
        KeyScope::Read => AccessScope::Read,
        KeyScope::Operate => AccessScope::Operate,
    }
}
