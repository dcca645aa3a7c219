//! How long, and within what, a MessageId counts (`duplicates` §1).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::model::{PartyId, Scope, Span};

/// How long any MessageId is remembered, unless the document is financial (`duplicates` §1).
pub const WINDOW_DEFAULT: Span = Span::days(90);
/// How long the MessageId of a financial document is remembered (`duplicates` §1).
pub const FINANCIAL_WINDOW_DEFAULT: Span = Span::days(180);
/// The shortest window that is taken outside stage `local` (`duplicates` §1).
pub const WINDOW_MIN: Span = Span::days(30);
/// How long a repeat waits for the outcome of the first (`duplicates` §2).
pub const IN_PROGRESS_WAIT_DEFAULT: Span = Span::seconds(20);
/// After how long an owner that never ends loses the id (`duplicates` §2).
pub const TAKEOVER_AFTER_DEFAULT: Span = Span::minutes(10);
/// What `window = "forever"` means; taken in stage `local` only.
pub const FOREVER: Span = Span::millis(u64::MAX);
/// The documents that count as financial unless configuration lists others: root names of XML documents,
/// `edifact:` and a message type, `x12:` and a transaction set, `pdf+xml` for hybrid invoices.
pub const FINANCIAL_DEFAULT: [&str; 11] = [
    "Invoice",
    "CreditNote",
    "CrossIndustryInvoice",
    "Statement",
    "RemittanceAdvice",
    "Reminder",
    "edifact:INVOIC",
    "edifact:REMADV",
    "x12:810",
    "x12:820",
    "pdf+xml",
];

/// Where this installation stands: what may be relaxed depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// A machine of a developer or a test bench.
    Local,
    /// The test network.
    Test,
    /// The production network.
    #[default]
    Production,
}

/// What the duplicate log is told by a P-Mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuplicatePolicy {
    /// What a MessageId is unique within.
    pub scope: Scope,
    /// The window of documents that are not financial.
    pub window: Span,
    /// The window of financial documents.
    pub financial_window: Span,
    /// Names of financial documents, in the form of [`FINANCIAL_DEFAULT`].
    pub financial: Vec<String>,
    /// Windows by document: a name as in `financial`, or a document type identifier with or without scheme.
    pub by_document: BTreeMap<String, Span>,
    /// Windows by sender.
    pub by_partner: BTreeMap<PartyId, Span>,
    /// How long a repeat waits while the first is in progress, before HTTP 503.
    pub in_progress_wait: Span,
    /// After how long a claim that is renewed but never ends is taken over.
    pub takeover_after: Span,
}

impl Default for DuplicatePolicy {
    fn default() -> Self {
        Self {
            scope: Scope::default(),
            window: WINDOW_DEFAULT,
            financial_window: FINANCIAL_WINDOW_DEFAULT,
            financial: FINANCIAL_DEFAULT.map(str::to_owned).to_vec(),
            by_document: BTreeMap::new(),
            by_partner: BTreeMap::new(),
            in_progress_wait: IN_PROGRESS_WAIT_DEFAULT,
            takeover_after: TAKEOVER_AFTER_DEFAULT,
        }
    }
}

/// What a document is, as far as its window depends on it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DocumentKind {
    /// Root local name, `edifact:INVOIC`, `x12:810` or `pdf+xml`; none when it is not known (yet).
    pub name: Option<String>,
    /// `scheme::value` of the document type, or the Action of a message outside Peppol.
    pub document_type: Option<String>,
}

impl DocumentKind {
    /// Reads what `eb:Action` says: `scheme::value` of a Peppol document type names the root (`urn:…::Invoice##…`)
    /// or the syntax (`urn:peppol:doctype:edifact:INVOIC##…`). Another Action is kept as it is, without a name.
    #[must_use]
    pub fn of_action(action: &str) -> Self {
        let document_type = Some(action.to_owned());
        let name = action.split_once("##").and_then(|(syntax, _)| Self::syntax_name(syntax));
        Self { name, document_type }
    }

    /// The same document, now that its root element (or EDI message type) has been read.
    #[must_use]
    pub fn named(self, name: &str) -> Self {
        Self { name: Some(name.to_owned()), ..self }
    }

    /// The name in the part before `##`: `scheme::namespace::Root`, or `scheme::urn:peppol:doctype:x12:810`.
    fn syntax_name(syntax: &str) -> Option<String> {
        let value = syntax.split_once("::").map_or(syntax, |(_, value)| value);
        match value.split_once("::") {
            Some((_, root)) => Some(root.to_owned()),
            None => value.strip_prefix("urn:peppol:doctype:").map(str::to_owned),
        }
    }

    /// The document type without its scheme.
    fn unschemed(&self) -> Option<&str> {
        self.document_type.as_deref().and_then(|id| id.split_once("::")).map(|(_, value)| value)
    }
}

impl DuplicatePolicy {
    /// The window of a message of `sender` with such a document (`duplicates` §1). What is said of the
    /// document or of the partner replaces the general rule; when both are said, the longer holds.
    #[must_use]
    pub fn window(&self, sender: &PartyId, document: &DocumentKind) -> Span {
        self.window_with(sender, document, None)
    }

    /// The same, for a receiver with a window of its own: that replaces the general rule too.
    #[must_use]
    pub fn window_with(&self, sender: &PartyId, document: &DocumentKind, receiver: Option<Span>) -> Span {
        let by_document = [document.document_type.as_deref(), document.unschemed(), document.name.as_deref()]
            .into_iter()
            .flatten()
            .find_map(|name| self.by_document.get(name).copied());
        let said = [by_document, self.by_partner.get(sender).copied(), receiver];
        match said.into_iter().flatten().max() {
            Some(said) => said,
            None if self.is_financial(document) => self.financial_window,
            None => self.window,
        }
    }

    /// Whether the list of financial documents names it.
    #[must_use]
    pub fn is_financial(&self, document: &DocumentKind) -> bool {
        document.name.as_deref().is_some_and(|name| self.financial.iter().any(|listed| listed == name))
    }
}

/// Checks one window against the floor (`duplicates` §1).
///
/// # Errors
/// The rule that is broken: shorter than 30 days or for ever, outside stage `local`.
pub fn check_window(window: Span, stage: Stage) -> Result<Span, &'static str> {
    match window {
        _ if stage == Stage::Local => Ok(window),
        FOREVER => Err("a window for ever is taken in stage local only"),
        window if window < WINDOW_MIN => Err("a window is at least 30d outside stage local"),
        window => Ok(window),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INVOICE: &str = "busdox-docid-qns::urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0::2.1";

    fn party(name: &str) -> PartyId {
        PartyId::parse(name).unwrap()
    }

    fn window_of(policy: &DuplicatePolicy, action: &str) -> Span {
        policy.window(&party("POP000001"), &DocumentKind::of_action(action))
    }

    #[test]
    fn invoices_credit_notes_payments_and_statements_are_kept_180_days() {
        let policy = DuplicatePolicy::default();
        for root in
            ["Invoice", "CreditNote", "CrossIndustryInvoice", "Statement", "RemittanceAdvice", "Reminder"]
        {
            let action = format!("busdox-docid-qns::urn:x:y::{root}##c::2.1");
            assert_eq!(window_of(&policy, &action), Span::days(180), "{root}");
        }
        for syntax in ["edifact:INVOIC", "edifact:REMADV", "x12:810", "x12:820", "pdf+xml"] {
            let action = format!("busdox-docid-qns::urn:peppol:doctype:{syntax}##eb2b::0");
            assert_eq!(window_of(&policy, &action), Span::days(180), "{syntax}");
        }
        assert_eq!(window_of(&policy, INVOICE), Span::days(180));
    }

    #[test]
    fn everything_else_is_kept_90_days() {
        let policy = DuplicatePolicy::default();
        for action in [
            "busdox-docid-qns::urn:x:y::Order##c::2.1",
            "busdox-docid-qns::urn:peppol:doctype:edifact:DESADV##eb2b::0",
            "http://docs.oasis-open.org/ebxml-msg/as4/200902/action",
            "Invoice",
            "",
        ] {
            assert_eq!(window_of(&policy, action), Span::days(90), "{action}");
        }
        let opened = DocumentKind::of_action("http://partner/action").named("x12:810");
        assert_eq!(policy.window(&party("POP000001"), &opened), Span::days(180));
    }

    #[test]
    fn document_and_partner_override_and_the_longer_of_both_holds() {
        let mut policy = DuplicatePolicy::default();
        policy.by_document.insert("Invoice".to_owned(), Span::days(40));
        assert_eq!(window_of(&policy, INVOICE), Span::days(40));
        policy.by_document.insert(INVOICE.to_owned(), Span::days(50));
        assert_eq!(window_of(&policy, INVOICE), Span::days(50));
        policy.by_partner.insert(party("POP000001"), Span::days(365));
        assert_eq!(window_of(&policy, INVOICE), Span::days(365));
        assert_eq!(policy.window(&party("POP000002"), &DocumentKind::of_action(INVOICE)), Span::days(50));
        let receiver = Some(Span::days(500));
        let kind = DocumentKind::of_action(INVOICE);
        assert_eq!(policy.window_with(&party("POP000002"), &kind, receiver), Span::days(500));
        assert_eq!(policy.window_with(&party("POP000002"), &kind, Some(Span::days(31))), Span::days(50));
        let unschemed = INVOICE.split_once("::").unwrap().1;
        policy.by_document = BTreeMap::from([(unschemed.to_owned(), Span::days(400))]);
        assert_eq!(window_of(&policy, INVOICE), Span::days(400));
    }

    #[test]
    fn a_window_is_taken_at_30_days_and_not_below_outside_local() {
        assert_eq!(check_window(WINDOW_MIN, Stage::Production), Ok(WINDOW_MIN));
        let short = Span::millis(WINDOW_MIN.as_millis() - 1);
        for stage in [Stage::Test, Stage::Production] {
            assert!(check_window(short, stage).is_err());
            assert!(check_window(FOREVER, stage).is_err());
        }
        assert_eq!(check_window(short, Stage::Local), Ok(short));
        assert_eq!(check_window(FOREVER, Stage::Local), Ok(FOREVER));
    }
}
