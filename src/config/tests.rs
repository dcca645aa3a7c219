//! Tests of reading and checking a configuration.

use super::*;

fn load(text: &str) -> Result<Config, ConfigError> {
    Config::from_text(text, Path::new("oncepoint.toml"), Path::new("/etc/oncepoint"), std::iter::empty())
}

/// The template of a stage with some text replaced.
fn changed(stage: Stage, from: &str, to: &str) -> Result<Config, ConfigError> {
    let text = template(stage, "POP000001");
    assert!(text.contains(from), "{from}");
    load(&text.replace(from, to))
}

fn refused(result: Result<Config, ConfigError>, words: &str) {
    let message = result.expect_err(words).to_string();
    assert!(message.contains(words), "{message:?} does not say {words:?}");
}

#[test]
fn the_template_of_every_stage_loads() {
    for stage in [Stage::Local, Stage::Test, Stage::Production] {
        let config = load(&template(stage, "POP000001")).unwrap();
        assert_eq!(config.file.node.stage, stage);
        assert_eq!(config.file.node.data_dir, Path::new("/etc/oncepoint/data"));
        assert_eq!(config.file.identity.as_slice()[0].key, "/etc/oncepoint/ap.key");
    }
}

#[test]
fn the_comments_of_the_template_are_the_defaults() {
    let text = template(Stage::Local, "POP000001");
    let defaults = load(&text).unwrap();
    // Every commented key that shows a default, taken out of its comment.
    let shown: String = text
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest) if rest.contains(" = ") && !rest.contains(".pem") && !rest.contains(".toml\"") => rest,
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    assert_ne!(text, shown);
    let mut explicit = load(&shown).unwrap();
    if let file::OneOrMany::One(identity) = &mut explicit.file.identity {
        assert_eq!(identity.tenant.take().as_deref(), Some("default"));
    }
    assert_eq!(toml::to_string(&explicit.file).unwrap(), toml::to_string(&defaults.file).unwrap());
}

#[test]
fn an_unknown_key_is_refused_by_name_and_line() {
    refused(changed(Stage::Local, "data_dir = \"data\"", "datadir = \"data\""), "datadir");
    refused(load("[node]\nstage = \"local\"\nx = 1"), "line 3");
}

#[test]
fn a_value_without_unit_is_refused() {
    refused(changed(Stage::Local, "# window = \"90d\" ", "window = \"90\" "), "like \"20s\" or \"90d\"");
}

#[test]
fn windows_have_a_floor_and_a_ceiling() {
    let window = |stage, days| changed(stage, "# window = \"90d\" ", &format!("window = \"{days}d\" "));
    assert!(window(Stage::Production, 30).is_ok());
    refused(window(Stage::Production, 29), "dedup.window");
    assert!(window(Stage::Local, 1).is_ok());
    assert!(window(Stage::Local, 3650).is_ok());
    refused(window(Stage::Local, 3651), "for ever");
}

#[test]
fn what_only_stage_local_may_do_is_refused_elsewhere() {
    refused(changed(Stage::Production, "revocation = \"hard\"", "revocation = \"off\""), "trust.revocation");
    refused(changed(Stage::Test, "file = \"participants.toml\"", "any = true"), "participants.any");
}

#[test]
fn plain_http_and_an_open_connector_stay_on_loopback() {
    refused(changed(Stage::Local, "127.0.0.1:8443", "0.0.0.0:8443"), "as4.tls");
    assert!(changed(Stage::Local, "127.0.0.1:8443\"", "0.0.0.0:8443\"\nbehind_proxy = true").is_ok());
    refused(changed(Stage::Local, "127.0.0.1:8080", "0.0.0.0:8080"), "connector.keys");
}

#[test]
fn segments_have_limits() {
    let segment =
        |size: &str| changed(Stage::Local, "# segment = \"64MiB\"", &format!("segment = \"{size}\""));
    assert!(segment("64KiB").is_ok());
    refused(segment("65535B"), "store.segment");
    assert!(segment("1GiB").is_ok());
    refused(segment("1025MiB"), "store.segment");
}

#[test]
fn a_variable_overrides_the_file() {
    let variables = [("ONCEPOINT_AS4__MAX_CONNECTIONS".to_owned(), "7".to_owned())];
    let text = template(Stage::Local, "POP000001");
    let config = Config::from_text(&text, Path::new("x"), Path::new("/"), variables.into_iter()).unwrap();
    assert_eq!(config.file.as4.max_connections, 7);
}

#[test]
fn a_secret_comes_from_a_file_or_the_environment() {
    refused(
        read_secret("identity.key", "env:ONCEPOINT_NOT_SET_ANYWHERE").map(|_| unreachable!()),
        "must be set",
    );
    refused(read_secret("identity.key", "pkcs11:token=x").map(|_| unreachable!()), "not supported");
    refused(read_secret("identity.key", "file:/nowhere/ap.key").map(|_| unreachable!()), "/nowhere/ap.key");
}
