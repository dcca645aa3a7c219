//! Who may use the connector, and for what. Only hashes of keys are held; they are compared in constant time.

use axum::http::{HeaderMap, StatusCode, header};

use super::problem::Problem;
use crate::{
    model::{Digest, ParticipantId, Tenant},
    store::Item,
};

/// What a key may do (connector API).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessScope {
    /// Submit documents.
    Send,
    /// Claim, fetch, acknowledge.
    Receive,
    /// List and look.
    Read,
    /// Requeue and other operator actions.
    Operate,
}

/// One API key, as configured.
#[derive(Debug, Clone)]
pub struct AccessKey {
    /// Its name in logs.
    pub name: String,
    /// SHA-256 of the key.
    pub sha256: Digest,
    /// What it may do.
    pub scopes: Vec<AccessScope>,
    /// Whose documents; none: of every tenant.
    pub tenant: Option<Tenant>,
    /// Which participants' documents; empty: all.
    pub participants: Vec<ParticipantId>,
}

/// Who is let in.
#[derive(Debug, Clone)]
pub enum ConnectorKeys {
    /// Nobody has to say who they are: the connector listens on loopback only.
    Loopback,
    /// Only holders of one of these.
    Keys(Vec<AccessKey>),
}

/// What the caller may see.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    pub(super) tenant: Option<Tenant>,
    pub(super) participants: Vec<ParticipantId>,
}

impl Access {
    /// Whether an item is the caller's to see.
    pub(super) fn sees(&self, item: &Item) -> bool {
        let tenant = self.tenant.as_ref().is_none_or(|tenant| *tenant == item.key.tenant);
        let receiver = item.meta.receiver.as_ref();
        let participant = self.participants.is_empty()
            || receiver.is_some_and(|is| self.participants.iter().any(|allowed| allowed.is_same(is)));
        tenant && participant
    }

    /// Whether the caller may see what concerns no tenant, such as records of refused messages.
    pub(super) const fn sees_everything(&self) -> bool {
        self.tenant.is_none() && self.participants.is_empty()
    }
}

impl ConnectorKeys {
    /// Lets a request in that carries a key of that scope, as `Authorization: Bearer KEY`.
    pub(super) fn admit(&self, headers: &HeaderMap, scope: AccessScope) -> Result<Access, Problem> {
        let Self::Keys(keys) = self else { return Ok(Access::default()) };
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let presented =
            bearer.and_then(|value| value.strip_prefix("Bearer ")).map(|key| Digest::of(key.as_bytes()));
        let Some(key) = presented.and_then(|presented| find(keys, &presented)) else {
            let detail = "a valid key is needed: Authorization: Bearer KEY";
            return Err(Problem::new(StatusCode::UNAUTHORIZED, "unauthorized", detail));
        };
        if !key.scopes.contains(&scope) {
            let detail = format!("the key has no scope {}", scope_name(scope));
            return Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", detail));
        }
        tracing::debug!(key = %key.name, ?scope, "connector call");
        Ok(Access { tenant: key.tenant.clone(), participants: key.participants.clone() })
    }
}

/// Every key is compared, in constant time, so that the answer's time tells nothing about the list.
fn find<'k>(keys: &'k [AccessKey], presented: &Digest) -> Option<&'k AccessKey> {
    let mut found = None;
    for key in keys {
        if openssl::memcmp::eq(key.sha256.as_bytes(), presented.as_bytes()) {
            found = Some(key);
        }
    }
    found
}

const fn scope_name(scope: AccessScope) -> &'static str {
    match scope {
        AccessScope::Send => "send",
        AccessScope::Receive => "receive",
        AccessScope::Read => "read",
        AccessScope::Operate => "operate",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> ConnectorKeys {
        ConnectorKeys::Keys(vec![AccessKey {
            name: "erp".to_owned(),
            sha256: Digest::of(b"secret"),
            scopes: vec![AccessScope::Receive],
            tenant: None,
            participants: vec![],
        }])
    }

    fn status(keys: &ConnectorKeys, value: Option<&str>, scope: AccessScope) -> Option<u16> {
        use axum::response::IntoResponse as _;
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
        }
        keys.admit(&headers, scope).err().map(|problem| problem.into_response().status().as_u16())
    }

    #[test]
    fn a_key_opens_its_own_scopes_only() {
        assert_eq!(status(&keys(), Some("Bearer secret"), AccessScope::Receive), None);
        assert_eq!(status(&keys(), Some("Bearer secret"), AccessScope::Operate), Some(403));
        assert_eq!(status(&keys(), Some("Bearer other"), AccessScope::Receive), Some(401));
        assert_eq!(status(&keys(), Some("secret"), AccessScope::Receive), Some(401));
        assert_eq!(status(&keys(), None, AccessScope::Receive), Some(401));
        assert_eq!(status(&ConnectorKeys::Loopback, None, AccessScope::Operate), None);
    }
}
