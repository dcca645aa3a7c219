//! `document`, `sbd` and `receipt`: exact bytes, streamed, with `Range` and `ETag` (the SHA-256).

use axum::{
    body::Body,
    extract::{Path, State},
    http::{HeaderMap, HeaderValue, Response, StatusCode, header},
};

use super::{
    AccessScope, Answered, Problem, Shared,
    stream::{PIECE_BYTES, Pieces, Stop, filled_by},
    visible_item,
};
use crate::{
    model::Digest,
    store::{Item, StoredPayload},
    wire::sbdh::DocumentReader,
};

/// Bytes with the digest that identifies them.
struct Entity {
    size: u64,
    sha256: Digest,
    media_type: HeaderValue,
}

/// What a request asks of an entity.
enum Asked {
    Whole,
    Part { from: u64, until: u64 },
    NotModified,
    Unsatisfiable,
}

pub(super) async fn document(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Receive, &id)?;
    let payload = parts.store.payload(item.id)?.ok_or_else(no_payload)?;
    let sha256 = item.meta.sha256.unwrap_or_else(|| payload.sha256());
    let entity = Entity { size: item.meta.size, sha256, media_type: media_type(&item) };
    let span = item.meta.span;
    Ok(answer(&headers, &entity, move |range, pieces| {
        let Some(span) = span else { return copy(&payload, range, pieces) };
        let mut reader = DocumentReader::new(&span);
        let mut place = 0_u64;
        let mut cut = |piece: &[u8]| {
            let kept = overlap(place, piece, range);
            place = place.saturating_add(piece.len() as u64);
            pieces.put(kept)
        };
        read(&payload, 0, payload.size(), |bytes| reader.feed(bytes, &mut cut))?;
        reader.finish(&mut cut)
    }))
}

pub(super) async fn sbd(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Receive, &id)?;
    let payload = parts.store.payload(item.id)?.ok_or_else(no_payload)?;
    let media_type = HeaderValue::from_static("application/xml");
    let entity = Entity { size: payload.size(), sha256: payload.sha256(), media_type };
    Ok(answer(&headers, &entity, move |range, pieces| copy(&payload, range, pieces)))
}

pub(super) async fn receipt(State(parts): Shared, headers: HeaderMap, Path(id): Path<String>) -> Answered {
    let item = visible_item(&parts, &headers, AccessScope::Read, &id)?;
    let stored = parts.store.answer(item.id)?;
    let named = stored.content_type.as_deref().and_then(|value| HeaderValue::from_str(value).ok());
    let media_type = named.unwrap_or_else(|| HeaderValue::from_static("application/octet-stream"));
    let entity = Entity { size: stored.body.len() as u64, sha256: stored.digest(), media_type };
    Ok(answer(&headers, &entity, move |range, pieces| pieces.put(overlap(0, &stored.body, range))))
}

fn no_payload() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "no_payload", "the message has no payload")
}

/// The declared media type when it can stand in a header; the document is bytes otherwise.
fn media_type(item: &Item) -> HeaderValue {
    let declared = item.meta.media_type.as_deref().and_then(|value| HeaderValue::from_str(value).ok());
    declared.unwrap_or_else(|| HeaderValue::from_static("application/octet-stream"))
}

type Range = (u64, u64);

fn answer(
    headers: &HeaderMap,
    entity: &Entity,
    fill: impl FnOnce(Range, &Pieces) -> Result<(), Stop> + Send + 'static,
) -> Response<Body> {
    let asked = asked(headers, entity);
    let mut response = Response::new(Body::empty());
    let (status, range) = match asked {
        Asked::Whole => (StatusCode::OK, Some((0, entity.size))),
        Asked::Part { from, until } => (StatusCode::PARTIAL_CONTENT, Some((from, until))),
        Asked::NotModified => (StatusCode::NOT_MODIFIED, None),
        Asked::Unsatisfiable => (StatusCode::RANGE_NOT_SATISFIABLE, None),
    };
    *response.status_mut() = status;
    let set = response.headers_mut();
    let mut put = |name, text: String| HeaderValue::from_str(&text).map(|value| set.insert(name, value));
    let _ = put(header::ETAG, etag(entity));
    match status {
        StatusCode::PARTIAL_CONTENT => {
            let (from, until) = range.unwrap_or_default();
            let _ = put(
                header::CONTENT_RANGE,
                format!("bytes {from}-{}/{}", until.saturating_sub(1), entity.size),
            );
        }
        StatusCode::RANGE_NOT_SATISFIABLE => {
            let _ = put(header::CONTENT_RANGE, format!("bytes */{}", entity.size));
        }
        _ => {}
    }
    set.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some((from, until)) = range {
        set.insert(header::CONTENT_TYPE, entity.media_type.clone());
        set.insert(header::CONTENT_LENGTH, HeaderValue::from(until.saturating_sub(from)));
        *response.body_mut() = filled_by(move |pieces| drop(fill((from, until), pieces)));
    }
    response
}

fn etag(entity: &Entity) -> String {
    format!("\"{}\"", entity.sha256)
}

fn asked(headers: &HeaderMap, entity: &Entity) -> Asked {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let etag = etag(entity);
    let listed =
        |list: &str| list.split(',').any(|one| matches!(one.trim(), tag if tag == etag || tag == "*"));
    if text(header::IF_NONE_MATCH).is_some_and(listed) {
        return Asked::NotModified;
    }
    let same = text(header::IF_RANGE).is_none_or(|tag| tag == etag);
    match text(header::RANGE).filter(|_| same).and_then(|value| value.strip_prefix("bytes=")) {
        Some(range) => part(range, entity.size),
        None => Asked::Whole,
    }
}

/// One range; several at once, or what is no range, are answered with the whole (RFC 9110 §14.2).
fn part(range: &str, size: u64) -> Asked {
    let Some((first, last)) = range.split_once('-') else { return Asked::Whole };
    let (from, until) = match (first.trim().parse::<u64>(), last.trim()) {
        (Ok(from), "") => (from, size),
        (Ok(from), last) => match last.parse::<u64>() {
            Ok(last) if last >= from => (from, last.saturating_add(1).min(size)),
            _ => return Asked::Whole,
        },
        (Err(_), last) if first.trim().is_empty() => match last.parse::<u64>() {
            Ok(suffix) if suffix > 0 => (size.saturating_sub(suffix), size),
            _ => return Asked::Unsatisfiable,
        },
        _ => return Asked::Whole,
    };
    if from < until { Asked::Part { from, until } } else { Asked::Unsatisfiable }
}

/// What of `piece`, which begins at `place` of the entity, lies in the range.
fn overlap(place: u64, piece: &[u8], (from, until): Range) -> &[u8] {
    let within =
        |edge: u64| usize::try_from(edge.saturating_sub(place)).unwrap_or(usize::MAX).min(piece.len());
    piece.get(within(from)..within(until)).unwrap_or_default()
}

fn copy(payload: &StoredPayload, (from, until): Range, pieces: &Pieces) -> Result<(), Stop> {
    read(payload, from, until, |bytes| pieces.put(bytes))
}

fn read(
    payload: &StoredPayload,
    from: u64,
    until: u64,
    mut each: impl FnMut(&[u8]) -> Result<(), Stop>,
) -> Result<(), Stop> {
    let mut buffer = vec![0; PIECE_BYTES];
    let mut place = from;
    while place < until {
        let left = usize::try_from(until.saturating_sub(place)).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let room = buffer.get_mut(..left).unwrap_or_default();
        let got =
            payload.read_at(place, room).inspect_err(|error| tracing::error!(%error, "a payload broke off"));
        let got = got.map_err(|_| Stop::Broken)?;
        if got == 0 {
            return Err(Stop::Broken);
        }
        each(room.get(..got).unwrap_or_default())?;
        place = place.saturating_add(got as u64);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(range: &str, size: u64, expected: Option<(u64, u64)>) {
        let found = match part(range, size) {
            Asked::Part { from, until } => Some((from, until)),
            Asked::Unsatisfiable => Some((u64::MAX, u64::MAX)),
            _ => None,
        };
        assert_eq!(found, expected, "{range} of {size}");
    }

    #[test]
    fn ranges_are_read_as_rfc_9110_says() {
        let unsatisfiable = Some((u64::MAX, u64::MAX));
        check("0-0", 10, Some((0, 1)));
        check("2-", 10, Some((2, 10)));
        check("-3", 10, Some((7, 10)));
        check("-30", 10, Some((0, 10)));
        check("5-99", 10, Some((5, 10)));
        check("10-", 10, unsatisfiable);
        check("-0", 10, unsatisfiable);
        check("0-", 0, unsatisfiable);
        for whole in ["5-2", "x", "0-1,3-4", "a-b", ""] {
            check(whole, 10, None);
        }
        check("18446744073709551615-", 10, unsatisfiable);
        check("0-18446744073709551615", 10, Some((0, 10)));
    }

    #[test]
    fn a_piece_is_cut_to_the_range() {
        assert_eq!(overlap(10, b"abcdef", (0, 12)), b"ab");
        assert_eq!(overlap(10, b"abcdef", (12, 99)), b"cdef");
        assert_eq!(overlap(10, b"abcdef", (0, 10)), b"");
        assert_eq!(overlap(10, b"abcdef", (16, 20)), b"");
        assert_eq!(overlap(10, b"abcdef", (11, 13)), b"bc");
    }
}
