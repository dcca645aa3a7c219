//! The commented file that `oncepoint init` writes. A test loads it, so it cannot go stale.

use super::file::Stage;

/// `oncepoint.toml` for a seat in a stage, with every key and its default.
#[must_use]
pub fn template(stage: Stage, seat: &str) -> String {
    let (stage_name, participants, revocation, listen) = match stage {
        Stage::Local => (
            "local",
            "any = true                   # stage local only: everyone is serviced\n# file = \"participants.toml\"",
            "off    ",
            "127.0.0.1:8443",
        ),
        Stage::Test => ("test", "file = \"participants.toml\"", "hard   ", "0.0.0.0:8443"),
        Stage::Production => ("production", "file = \"participants.toml\"", "hard   ", "0.0.0.0:8443"),
    };
    let tls = match stage {
        Stage::Local => "# tls = { cert = \"tls.pem\", key = \"tls.key\" }",
        Stage::Test | Stage::Production => "tls = { cert = \"tls.pem\", key = \"tls.key\" }",
    };
    include_str!("oncepoint.toml.in")
        .replace("@STAGE@", stage_name)
        .replace("@SEAT@", seat)
        .replace("@PARTICIPANTS@", participants)
        .replace("@REVOCATION@", revocation.trim_end())
        .replace("@LISTEN@", listen)
        .replace("@TLS@", tls)
}

/// `participants.toml` with one commented example.
#[must_use]
pub fn participants_template() -> &'static str {
    include_str!("participants.toml.in")
}
