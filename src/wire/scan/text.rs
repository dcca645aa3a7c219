//! Text in pieces: line ends and `]]>` over the seams.

use super::ScanError;
use super::core::Handler;
use super::event::{ScanEvent, Span};
use crate::wire::xml::chars::push_line_ends;
use crate::wire::xml::{Encoding, Violation};

/// How far a piece of a CDATA section was read.
pub(super) struct CdataRead {
    /// Bytes of the piece that are done with.
    pub(super) taken: usize,
    /// Whether the section ended.
    pub(super) closed: bool,
}

#[derive(Debug)]
pub(super) struct Text {
    encoding: Encoding,
    /// A carriage return that ended a piece: what it means depends on the next character.
    held_return: Option<u64>,
    /// Closing brackets that ended the piece before, at most two. In a CDATA section they are held back, and the
    /// position stands before them.
    brackets: usize,
    /// A piece with its line ends made one LF each.
    scratch: String,
}

impl Text {
    pub(super) fn new(encoding: Encoding) -> Self {
        Self { encoding, held_return: None, brackets: 0, scratch: String::new() }
    }

    /// Reports a run of text without `<` and `&`.
    pub(super) fn run<E: From<ScanError>>(
        &mut self,
        run: &str,
        position: &mut u64,
        on: &mut Handler<'_, E>,
    ) -> Result<(), E> {
        if self.has_cdata_end(run.as_bytes()) {
            return Err(ScanError::Malformed { rule: Violation::CdataEnd, at: *position }.into());
        }
        self.characters(run, position, on)
    }

    /// Whether `]]>` ends in this run, and remembers the brackets at its end.
    fn has_cdata_end(&mut self, run: &[u8]) -> bool {
        let leading = run.iter().take_while(|&&byte| byte == b']').count();
        let over_the_seam = self.brackets + leading >= 2 && run.get(leading) == Some(&b'>');
        let trailing = run.iter().rev().take_while(|&&byte| byte == b']').count();
        self.brackets = if leading == run.len() { self.brackets + leading } else { trailing }.min(2);
        let ends_at = |at: usize| run.get(..at).is_some_and(|before| before.ends_with(b"]]"));
        over_the_seam || memchr::memchr_iter(b'>', run).any(ends_at)
    }

    /// Reports a piece of the content of a CDATA section.
    pub(super) fn cdata<E: From<ScanError>>(
        &mut self,
        piece: &str,
        position: &mut u64,
        on: &mut Handler<'_, E>,
    ) -> Result<CdataRead, E> {
        if self.brackets > 0 {
            return self.cdata_after_brackets(piece, position, on);
        }
        if let Some(end) = memchr::memmem::find(piece.as_bytes(), b"]]>") {
            self.characters(piece.get(..end).unwrap_or(""), position, on)?;
            return self.close_cdata(end + 3, position, on);
        }
        let trailing = piece.bytes().rev().take(2).take_while(|&byte| byte == b']').count();
        self.characters(piece.get(..piece.len() - trailing).unwrap_or(""), position, on)?;
        self.brackets = trailing;
        Ok(CdataRead { taken: piece.len(), closed: false })
    }

    /// The same when the piece before ended in brackets.
    fn cdata_after_brackets<E: From<ScanError>>(
        &mut self,
        piece: &str,
        position: &mut u64,
        on: &mut Handler<'_, E>,
    ) -> Result<CdataRead, E> {
        let held = std::mem::take(&mut self.brackets);
        let leading = piece.bytes().take_while(|&byte| byte == b']').count();
        let closes = held + leading >= 2 && piece.as_bytes().get(leading) == Some(&b'>');
        if closes || leading == piece.len() {
            // All but the last two brackets are content.
            let content = held + leading - 2;
            self.characters("]]".get(..content.min(held)).unwrap_or(""), position, on)?;
            self.characters(piece.get(..content.saturating_sub(held)).unwrap_or(""), position, on)?;
            if closes {
                return self.close_cdata(leading + 1, position, on);
            }
            self.brackets = 2;
            return Ok(CdataRead { taken: piece.len(), closed: false });
        }
        self.characters("]]".get(..held).unwrap_or(""), position, on)?;
        Ok(CdataRead { taken: 0, closed: false })
    }

    fn close_cdata<E: From<ScanError>>(
        &mut self,
        taken: usize,
        position: &mut u64,
        on: &mut Handler<'_, E>,
    ) -> Result<CdataRead, E> {
        *position += self.width("]]>");
        self.end(on)?;
        Ok(CdataRead { taken, closed: true })
    }

    /// Reports characters with their line ends made one LF each.
    fn characters<E>(&mut self, run: &str, position: &mut u64, on: &mut Handler<'_, E>) -> Result<(), E> {
        if run.is_empty() {
            return Ok(());
        }
        let mut run = run;
        if let Some(start) = self.held_return.take() {
            if let Some(rest) = run.strip_prefix('\n') {
                *position += self.width("\n");
                run = rest;
            }
            on(ScanEvent::Text { text: "\n", span: Span { start, end: *position } })?;
        }
        let start = *position;
        let whole = run.strip_suffix('\r').unwrap_or(run);
        *position += self.width(whole);
        if whole.len() < run.len() {
            self.held_return = Some(*position);
        }
        if !whole.is_empty() {
            let span = Span { start, end: *position };
            self.with_line_ends(whole, |text| on(ScanEvent::Text { text, span }))?;
        }
        *position += self.width(run.get(whole.len()..).unwrap_or(""));
        Ok(())
    }

    /// Ends a run of text: markup follows.
    pub(super) fn end<E>(&mut self, on: &mut Handler<'_, E>) -> Result<(), E> {
        self.brackets = 0;
        match self.held_return.take() {
            Some(start) => {
                on(ScanEvent::Text { text: "\n", span: Span { start, end: start + self.width("\r") } })
            }
            None => Ok(()),
        }
    }

    /// Hands on a piece with its line ends made one LF each.
    pub(super) fn with_line_ends<E>(
        &mut self,
        piece: &str,
        use_it: impl FnOnce(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        if memchr::memchr(b'\r', piece.as_bytes()).is_none() {
            return use_it(piece);
        }
        self.scratch.clear();
        push_line_ends(piece, &mut self.scratch);
        use_it(&self.scratch)
    }

    fn width(&self, part: &str) -> u64 {
        self.encoding.width(part) as u64
    }
}
