//! `oncepoint pki`: trust anchors. The CAs of the Peppol network are known by their fingerprints.

use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::ValueEnum;
use openssl::x509::X509;
use serde::Serialize;
use serde_json::json;

use super::{CliError, PkiCommand, output::Output};
use crate::{
    config::{
        self, Config,
        file::{Stage, Trust},
    },
    model::Digest,
};

/// What an anchor may vouch for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum AnchorRole {
    /// Ends a chain.
    Root,
    /// Its leaves may act as access points.
    ApCa,
    /// Its leaves may sign metadata.
    SmpCa,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Network {
    Test,
    Production,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
enum Generation {
    G2,
    G3,
}

/// A CA of the Peppol network (Peppol PKI, `peppol-network` §4.1).
#[derive(Debug, Clone, Copy, Serialize)]
struct KnownCa {
    sha256: &'static str,
    role: AnchorRole,
    network: Network,
    generation: Generation,
}

const fn known(sha256: &'static str, role: AnchorRole, network: Network, generation: Generation) -> KnownCa {
    KnownCa { sha256, role, network, generation }
}

/// SHA-256 fingerprints of the network's CAs; G2 is retired since 2026-04-01.
const KNOWN: &[KnownCa] = &[
    known(
        "b65e375a5826ada16517b2aa8a881b6fcaff5e48e7559b9e96bba5c64921f900",
        AnchorRole::ApCa,
        Network::Production,
        Generation::G3,
    ),
    known(
        "d2445a0f115ee64cc141a849fe142927fe5701b7d9b58d3e6f53993162115cc0",
        AnchorRole::ApCa,
        Network::Test,
        Generation::G3,
    ),
    known(
        "b6075b9f8655e756777f182d1407c0049442d3a2f57dff9781523828f331f211",
        AnchorRole::Root,
        Network::Production,
        Generation::G3,
    ),
    known(
        "8b4e0e5dc7c8208cba88edebfad31e064740d896ab6e18de0b03386fd24be734",
        AnchorRole::Root,
        Network::Test,
        Generation::G3,
    ),
    known(
        "d9e17467c69e51fc4f5c5263542fc68d2abba5dfaae62e87fbd6829f1de621c4",
        AnchorRole::SmpCa,
        Network::Production,
        Generation::G3,
    ),
    known(
        "eb78dabb622bbc701592f085bc27ab817fe1c0d4753ae829682e8127b3b00ce7",
        AnchorRole::SmpCa,
        Network::Test,
        Generation::G3,
    ),
    known(
        "fb646e151d7285e76cf89266c1ab2954dc2e55d9c2bc7cc3ac8003e158f05dcd",
        AnchorRole::ApCa,
        Network::Production,
        Generation::G2,
    ),
    known(
        "039a30ffca414446802af022bbb7ee614e986a12b92e952cb492c8ef62c962e6",
        AnchorRole::ApCa,
        Network::Test,
        Generation::G2,
    ),
    known(
        "f019b8a3225004039e2be8c83cdae021d5f5b66cdc4033977479b84d16073484",
        AnchorRole::Root,
        Network::Production,
        Generation::G2,
    ),
    known(
        "e4b8642757a02ddd4f887cb3a2c699792617685ead0be42de0c21ef590cdffad",
        AnchorRole::Root,
        Network::Test,
        Generation::G2,
    ),
    known(
        "52895fd636652c194acd5c4db828a4c90416b54eaa5b1d3f3c66c67c8e65d847",
        AnchorRole::SmpCa,
        Network::Production,
        Generation::G2,
    ),
    known(
        "5fc0b129bbbd9d45124f9b59b2b2d32eebb929283783bf6f011c4afdef2dd82c",
        AnchorRole::SmpCa,
        Network::Test,
        Generation::G2,
    ),
];

pub(super) fn run(command: PkiCommand, output: &Output) -> Result<(), CliError> {
    match command {
        PkiCommand::Show(args) => show(&Config::load(&args.config)?, output),
        PkiCommand::Import { config, file, role } => {
            import(&Config::load(&config.config)?, &file, role, output)
        }
    }
}

fn show(config: &Config, output: &Output) -> Result<(), CliError> {
    let trust = &config.file.trust;
    let lists = [
        (AnchorRole::Root, &trust.roots),
        (AnchorRole::ApCa, &trust.ap_ca),
        (AnchorRole::SmpCa, &trust.smp_ca),
    ];
    let (mut lines, mut values) = (vec![], vec![]);
    for (role, paths) in lists {
        for path in paths {
            for certificate in certificates(path)? {
                lines.push(format!("{:<6} {}", role_name(role), describe(&certificate)));
                values.push(json!({ "role": role, "file": path, "subject": subject(&certificate),
                    "sha256": fingerprint(&certificate), "not_after": certificate.not_after().to_string(),
                    "known": find(&certificate) }));
            }
        }
    }
    output.result(&lines, &json!({ "anchors": values }))
}

fn import(config: &Config, file: &Path, role: Option<AnchorRole>, output: &Output) -> Result<(), CliError> {
    let (mut lines, mut values) = (vec![], vec![]);
    for certificate in certificates(file)? {
        let role = role_of(&certificate, role, config.file.node.stage)?;
        let target = target(&config.file.trust, role)?;
        let fresh = append(&target, &certificate)?;
        let verb = if fresh { "added" } else { "has already" };
        lines.push(format!("{} {verb} {}", target.display(), describe(&certificate)));
        values.push(
            json!({ "role": role, "file": target, "added": fresh, "sha256": fingerprint(&certificate) }),
        );
    }
    output.result(&lines, &json!({ "imported": values }))
}

/// The role that a known CA has by itself, else the one that was said; a CA of another network or a
/// retired one is refused, because it would let strangers in.
fn role_of(certificate: &X509, said: Option<AnchorRole>, stage: Stage) -> Result<AnchorRole, CliError> {
    let Some(ca) = find(certificate) else {
        return said.ok_or_else(|| {
            CliError::Usage(format!(
                "{} is no known Peppol CA: say --as root, ap-ca or smp-ca",
                describe(certificate)
            ))
        });
    };
    let fits = match stage {
        Stage::Production => ca.network == Network::Production,
        Stage::Test => ca.network == Network::Test,
        Stage::Local => true,
    };
    if !fits {
        return Err(CliError::Usage(format!(
            "{} belongs to another network than this stage",
            describe(certificate)
        )));
    }
    if ca.generation == Generation::G2 {
        return Err(CliError::Usage(format!("{} was retired on 2026-04-01", describe(certificate))));
    }
    match said {
        Some(said) if said != ca.role => {
            Err(CliError::Usage(format!("{} is not what --as says", describe(certificate))))
        }
        _ => Ok(ca.role),
    }
}

fn target(trust: &Trust, role: AnchorRole) -> Result<PathBuf, CliError> {
    let (key, list) = match role {
        AnchorRole::Root => ("roots", &trust.roots),
        AnchorRole::ApCa => ("ap_ca", &trust.ap_ca),
        AnchorRole::SmpCa => ("smp_ca", &trust.smp_ca),
    };
    list.first().cloned().ok_or_else(|| CliError::Usage(format!("[trust] {key} names no file to import to")))
}

fn append(path: &Path, certificate: &X509) -> Result<bool, CliError> {
    let present = if path.exists() { certificates(path)? } else { vec![] };
    if present.iter().any(|other| fingerprint(other) == fingerprint(certificate)) {
        return Ok(false);
    }
    let failed = |e: std::io::Error| CliError::failed(path.display(), e);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    let pem = certificate.to_pem().map_err(|e| CliError::failed(path.display(), e))?;
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    file.write_all(&pem).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(true)
}

fn certificates(path: &Path) -> Result<Vec<X509>, CliError> {
    let bytes = config::read(path)?;
    let parsed = if bytes.windows(10).any(|w| w == b"-----BEGIN") {
        X509::stack_from_pem(&bytes)
    } else {
        X509::from_der(&bytes).map(|one| vec![one])
    };
    match parsed {
        Ok(list) if !list.is_empty() => Ok(list),
        _ => Err(CliError::Usage(format!("{}: no certificate in PEM or DER form", path.display()))),
    }
}

fn find(certificate: &X509) -> Option<KnownCa> {
    let sha256 = fingerprint(certificate)?.to_string();
    KNOWN.iter().copied().find(|ca| ca.sha256 == sha256)
}

fn fingerprint(certificate: &X509) -> Option<Digest> {
    certificate.to_der().ok().map(|der| Digest::of(&der))
}

fn subject(certificate: &X509) -> String {
    let names = certificate.subject_name().entries().filter_map(|entry| {
        let name = entry.object().nid().short_name().ok()?;
        Some(format!("{name}={}", entry.data().to_string().ok()?))
    });
    names.collect::<Vec<_>>().join(", ")
}

fn describe(certificate: &X509) -> String {
    let sha256 = fingerprint(certificate).map(|d| d.to_string()).unwrap_or_default();
    let name = find(certificate).map_or_else(String::new, |ca| {
        let network = if ca.network == Network::Test { "test" } else { "production" };
        format!(" (Peppol {network} {} {:?})", role_name(ca.role), ca.generation)
    });
    format!("{}{name}, until {}, sha256 {sha256}", subject(certificate), certificate.not_after())
}

const fn role_name(role: AnchorRole) -> &'static str {
    match role {
        AnchorRole::Root => "root",
        AnchorRole::ApCa => "ap-ca",
        AnchorRole::SmpCa => "smp-ca",
    }
}
