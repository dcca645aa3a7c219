//! A Peppol business envelope (SBD) around an invoice or around binary content, of any size, made by a
//! deterministic generator that never holds the document in memory.

use base64::{Engine as _, engine::general_purpose::STANDARD};

use crate::{
    Fault,
    xml::{Form, NONE, Space, Tag, Writer},
};

const SBDH: Space =
    Space { prefix: "", uri: "http://www.unece.org/cefact/namespaces/StandardBusinessDocumentHeader" };
const INVOICE: Space = Space { prefix: "", uri: "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2" };
const CAC: Space =
    Space { prefix: "cac", uri: "urn:oasis:names:specification:ubl:schema:xsd:CommonAggregateComponents-2" };
const CBC: Space =
    Space { prefix: "cbc", uri: "urn:oasis:names:specification:ubl:schema:xsd:CommonBasicComponents-2" };
const TICC: Space = Space { prefix: "", uri: "http://peppol.eu/xsd/ticc/envelope/1.0" };

/// The scheme of every participant here.
pub const PARTICIPANT_SCHEME: &str = "iso6523-actorid-upis";
/// The scheme of the document type.
pub const DOCUMENT_TYPE_SCHEME: &str = "busdox-docid-qns";
/// The document type of a Peppol BIS Billing 3.0 invoice.
pub const DOCUMENT_TYPE: &str = "urn:oasis:names:specification:ubl:schema:xsd:Invoice-2::Invoice##\
urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0::2.1";
/// The scheme of the process.
pub const PROCESS_SCHEME: &str = "cenbii-procid-ubl";
/// The billing process.
pub const PROCESS: &str = "urn:fdc:peppol.eu:2017:poacc:billing:01:1.0";
const CUSTOMIZATION: &str = "urn:cen.eu:en16931:2017#compliant#urn:fdc:peppol.eu:2017:poacc:billing:3.0";

/// What fills a document up to its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filler {
    /// Text that deflate makes about fifteen times smaller.
    Plain,
    /// Pseudo-random bytes, in base64 where the form wants text.
    Random,
}

/// The business document inside the envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Document {
    /// A UBL invoice with as many lines as the size asks for.
    Invoice {
        /// Its number.
        number: String,
        /// About so many bytes.
        bytes: u64,
        /// What its lines say.
        filler: Filler,
    },
    /// `BinaryContent` (Peppol Business Message Envelope §3.2).
    Binary {
        /// Told apart by this.
        number: String,
        /// Decoded bytes, rounded up to whole blocks of 48.
        bytes: u64,
        /// What they are.
        filler: Filler,
    },
}

/// The envelope and what is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sbd {
    /// C1, without its scheme.
    pub sender: String,
    /// C4, without its scheme.
    pub receiver: String,
    /// `InstanceIdentifier`.
    pub instance: String,
    /// `CreationDateAndTime`, with a zone.
    pub created: String,
    /// What is inside.
    pub document: Document,
}

/// A piece of an SBD, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the envelope.
    Envelope(&'a [u8]),
    /// Bytes of the envelope that are the business document too.
    Document(&'a [u8]),
    /// Bytes of the business document that are not in the envelope as such (decoded base64).
    Decoded(&'a [u8]),
}

impl<'a> Piece<'a> {
    /// The bytes, when they are part of the envelope.
    #[must_use]
    pub fn of_envelope(self) -> Option<&'a [u8]> {
        match self {
            Self::Envelope(bytes) | Self::Document(bytes) => Some(bytes),
            Self::Decoded(_) => None,
        }
    }

    /// The bytes, when they are part of the business document.
    #[must_use]
    pub fn of_document(self) -> Option<&'a [u8]> {
        match self {
            Self::Document(bytes) | Self::Decoded(bytes) => Some(bytes),
            Self::Envelope(_) => None,
        }
    }
}

#[derive(Clone, Copy)]
enum Region {
    Envelope,
    Document,
}

impl Sbd {
    /// Writes the envelope in that form, piece by piece.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn write(
        &self,
        form: Form,
        sink: &mut dyn FnMut(Piece<'_>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let region = std::cell::Cell::new(Region::Envelope);
        let sink = std::cell::RefCell::new(sink);
        let mut bytes = |bytes: &[u8]| {
            (sink.borrow_mut())(match region.get() {
                Region::Envelope => Piece::Envelope(bytes),
                Region::Document => Piece::Document(bytes),
            })
        };
        if form == Form::Wire {
            bytes(b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- composed for a test -->\n")?;
        }
        let mut writer = Writer::new(form, &mut bytes);
        let root = if form == Form::Wire { [SBDH].as_slice() } else { &[] };
        writer.start(&Tag {
            space: SBDH,
            local: "StandardBusinessDocument",
            attributes: &[],
            declare: root,
        })?;
        self.header(&mut writer)?;
        writer.boundary()?;
        match &self.document {
            Document::Invoice { number, bytes, filler } => {
                region.set(Region::Document);
                self.invoice(&mut writer, number, *bytes, *filler)?;
                writer.flush()?;
                region.set(Region::Envelope);
            }
            Document::Binary { number, bytes, filler } => {
                let mut decoded = |bytes: &[u8]| (sink.borrow_mut())(Piece::Decoded(bytes));
                binary(&mut writer, number, *bytes, *filler, &mut decoded)?;
            }
        }
        writer.end()?;
        writer.flush()
    }

    fn header(&self, writer: &mut Writer<'_, '_>) -> Result<(), Fault> {
        open(writer, SBDH, "StandardBusinessDocumentHeader")?;
        writer.leaf(SBDH, "HeaderVersion", &[], "1.0")?;
        for (role, participant) in [("Sender", &self.sender), ("Receiver", &self.receiver)] {
            open(writer, SBDH, role)?;
            writer.leaf(SBDH, "Identifier", &[(NONE, "Authority", PARTICIPANT_SCHEME)], participant)?;
            writer.end()?;
        }
        open(writer, SBDH, "DocumentIdentification")?;
        for (local, value) in [
            ("Standard", INVOICE.uri),
            ("TypeVersion", "2.1"),
            ("InstanceIdentifier", self.instance.as_str()),
            ("Type", "Invoice"),
            ("CreationDateAndTime", self.created.as_str()),
        ] {
            writer.leaf(SBDH, local, &[], value)?;
        }
        writer.end()?;
        open(writer, SBDH, "BusinessScope")?;
        for (kind, value, identifier) in [
            ("DOCUMENTID", DOCUMENT_TYPE, DOCUMENT_TYPE_SCHEME),
            ("PROCESSID", PROCESS, PROCESS_SCHEME),
            ("COUNTRY_C1", "NO", ""),
        ] {
            open(writer, SBDH, "Scope")?;
            writer.leaf(SBDH, "Type", &[], kind)?;
            writer.leaf(SBDH, "InstanceIdentifier", &[], value)?;
            if !identifier.is_empty() {
                writer.leaf(SBDH, "Identifier", &[], identifier)?;
            }
            writer.end()?;
        }
        writer.end()?;
        writer.end()
    }

    fn invoice(
        &self,
        writer: &mut Writer<'_, '_>,
        number: &str,
        bytes: u64,
        filler: Filler,
    ) -> Result<(), Fault> {
        let lines = (bytes.saturating_sub(HEAD_BYTES) / LINE_BYTES).max(1);
        writer.start(&Tag {
            space: INVOICE,
            local: "Invoice",
            attributes: &[],
            declare: &[INVOICE, CAC, CBC],
        })?;
        for (local, value) in [
            ("CustomizationID", CUSTOMIZATION),
            ("ProfileID", PROCESS),
            ("ID", number),
            ("IssueDate", "2026-12-01"),
            ("DueDate", "2026-12-31"),
            ("InvoiceTypeCode", "380"),
            ("DocumentCurrencyCode", "EUR"),
            ("BuyerReference", "Ref. 4711 <A&B>"),
        ] {
            writer.leaf(CBC, local, &[], value)?;
        }
        party(writer, "AccountingSupplierParty", &self.sender, "NO", "Sjøl & Sønner AS")?;
        party(writer, "AccountingCustomerParty", &self.receiver, "DE", "Käufer <Zentrale> GmbH")?;
        totals(writer, lines)?;
        let mut random = Random::new(number);
        for line in 1..=lines {
            invoice_line(writer, line, &mut random, filler)?;
        }
        writer.end()
    }
}

/// About what an invoice has outside its lines.
const HEAD_BYTES: u64 = 2400;
/// About what one line of an invoice has.
const LINE_BYTES: u64 = 695;
/// Net amount of each line, in cents.
const LINE_CENTS: u64 = 1250;

fn open(writer: &mut Writer<'_, '_>, space: Space, local: &str) -> Result<(), Fault> {
    writer.start(&Tag { space, local, attributes: &[], declare: &[] })
}

fn money(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn amount(writer: &mut Writer<'_, '_>, local: &str, cents: u64) -> Result<(), Fault> {
    writer.leaf(CBC, local, &[(NONE, "currencyID", "EUR")], &money(cents))
}

fn party(
    writer: &mut Writer<'_, '_>,
    role: &str,
    participant: &str,
    country: &str,
    name: &str,
) -> Result<(), Fault> {
    let (scheme, endpoint) = participant.split_once(':').unwrap_or(("0192", participant));
    open(writer, CAC, role)?;
    open(writer, CAC, "Party")?;
    writer.leaf(CBC, "EndpointID", &[(NONE, "schemeID", scheme)], endpoint)?;
    open(writer, CAC, "PostalAddress")?;
    writer.leaf(CBC, "CityName", &[], "Trondheim")?;
    open(writer, CAC, "Country")?;
    writer.leaf(CBC, "IdentificationCode", &[], country)?;
    writer.end()?;
    writer.end()?;
    open(writer, CAC, "PartyTaxScheme")?;
    writer.leaf(CBC, "CompanyID", &[], &format!("{country}123456785"))?;
    tax_scheme(writer)?;
    writer.end()?;
    open(writer, CAC, "PartyLegalEntity")?;
    writer.leaf(CBC, "RegistrationName", &[], name)?;
    writer.end()?;
    writer.end()?;
    writer.end()
}

fn tax_scheme(writer: &mut Writer<'_, '_>) -> Result<(), Fault> {
    open(writer, CAC, "TaxScheme")?;
    writer.leaf(CBC, "ID", &[], "VAT")?;
    writer.end()
}

fn tax_category(writer: &mut Writer<'_, '_>, local: &str) -> Result<(), Fault> {
    open(writer, CAC, local)?;
    writer.leaf(CBC, "ID", &[], "S")?;
    writer.leaf(CBC, "Percent", &[], "25")?;
    tax_scheme(writer)?;
    writer.end()
}

fn totals(writer: &mut Writer<'_, '_>, lines: u64) -> Result<(), Fault> {
    let net = lines.saturating_mul(LINE_CENTS);
    let tax = net / 4;
    open(writer, CAC, "TaxTotal")?;
    amount(writer, "TaxAmount", tax)?;
    open(writer, CAC, "TaxSubtotal")?;
    amount(writer, "TaxableAmount", net)?;
    amount(writer, "TaxAmount", tax)?;
    tax_category(writer, "TaxCategory")?;
    writer.end()?;
    writer.end()?;
    open(writer, CAC, "LegalMonetaryTotal")?;
    amount(writer, "LineExtensionAmount", net)?;
    amount(writer, "TaxExclusiveAmount", net)?;
    amount(writer, "TaxInclusiveAmount", net.saturating_add(tax))?;
    amount(writer, "PayableAmount", net.saturating_add(tax))?;
    writer.end()
}

fn invoice_line(
    writer: &mut Writer<'_, '_>,
    line: u64,
    random: &mut Random,
    filler: Filler,
) -> Result<(), Fault> {
    open(writer, CAC, "InvoiceLine")?;
    writer.leaf(CBC, "ID", &[], &line.to_string())?;
    if filler == Filler::Random {
        // Of a line that must not shrink nearly everything is noise.
        let mut noise = [0; 8160];
        if line % 16 == 1 {
            random.fill(&mut noise);
            writer.leaf(CBC, "Note", &[], &STANDARD.encode(noise))?;
        }
        return writer.end();
    }
    writer.leaf(CBC, "InvoicedQuantity", &[(NONE, "unitCode", "EA")], "1")?;
    amount(writer, "LineExtensionAmount", LINE_CENTS)?;
    open(writer, CAC, "Item")?;
    let name = format!("Article {:06} for project {:08x}", line, random.number() & 0xFFFF_FFFF);
    writer.leaf(CBC, "Description", &[], "Delivered to the quay, packed in boxes of twelve, as ordered")?;
    writer.leaf(CBC, "Name", &[], &name)?;
    tax_category(writer, "ClassifiedTaxCategory")?;
    writer.end()?;
    open(writer, CAC, "Price")?;
    amount(writer, "PriceAmount", LINE_CENTS)?;
    writer.end()?;
    writer.end()
}

/// Bytes of one block of binary content: a multiple of three, so that base64 has no padding inside.
const BLOCK_BYTES: usize = 48 * 256;

fn binary(
    writer: &mut Writer<'_, '_>,
    number: &str,
    bytes: u64,
    filler: Filler,
    decoded: &mut dyn FnMut(&[u8]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    writer.start(&Tag {
        space: TICC,
        local: "BinaryContent",
        attributes: &[(NONE, "mimeType", "application/octet-stream")],
        declare: &[],
    })?;
    let mut random = Random::new(number);
    let mut left = bytes.div_ceil(48).saturating_mul(48);
    let mut block = vec![0; BLOCK_BYTES];
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        let Some(part) = block.get_mut(..size) else { break };
        match filler {
            Filler::Random => random.fill(part),
            Filler::Plain => {
                // One block in sixteen bytes of noise, the rest repeats.
                for (index, chunk) in part.chunks_mut(768).enumerate() {
                    chunk.fill(u8::try_from(index % 251).unwrap_or_default());
                    let noise = chunk.len().min(48);
                    random.fill(chunk.get_mut(..noise).unwrap_or_default());
                }
            }
        }
        decoded(part)?;
        writer.text(&STANDARD.encode(part))?;
        left = left.saturating_sub(size as u64);
    }
    writer.end()
}

/// A small generator of pseudo-random numbers (splitmix64), so that every pass makes the same bytes.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Seeded with a name.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(name.bytes().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
        }))
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Fills `out`.
    pub fn fill(&mut self, out: &mut [u8]) {
        for chunk in out.chunks_mut(8) {
            let bytes = self.number().to_le_bytes();
            chunk.copy_from_slice(bytes.get(..chunk.len()).unwrap_or(&bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(document: Document) -> Sbd {
        Sbd {
            sender: "0192:991825827".into(),
            receiver: "9915:test".into(),
            instance: "i-1".into(),
            created: "2026-12-01T06:00:00Z".into(),
            document,
        }
    }

    fn written(sbd: &Sbd, form: Form) -> (String, Vec<u8>) {
        let (mut envelope, mut document) = (Vec::new(), Vec::new());
        sbd.write(form, &mut |piece| {
            envelope.extend_from_slice(piece.of_envelope().unwrap_or_default());
            document.extend_from_slice(piece.of_document().unwrap_or_default());
            Ok(())
        })
        .unwrap();
        (String::from_utf8(envelope).unwrap(), document)
    }

    #[test]
    fn an_invoice_has_about_the_size_asked_for_and_stands_in_the_envelope() {
        for filler in [Filler::Plain, Filler::Random] {
            for bytes in [10_000_u64, 300_000] {
                let sbd = sample(Document::Invoice { number: "INV-1".into(), bytes, filler });
                let (envelope, document) = written(&sbd, Form::Wire);
                let size = document.len() as f64 / bytes as f64;
                assert!((0.7..1.4).contains(&size), "{filler:?} {bytes}: {}", document.len());
                let document = String::from_utf8(document).unwrap();
                assert!(document.starts_with("<Invoice ") && document.ends_with("</Invoice>"));
                assert!(envelope.contains(&document));
                assert_eq!(envelope, written(&sbd, Form::Wire).0);
            }
        }
    }

    #[test]
    fn binary_content_is_base64_of_the_document() {
        let sbd = sample(Document::Binary { number: "B".into(), bytes: 50_000, filler: Filler::Random });
        let (envelope, document) = written(&sbd, Form::Wire);
        assert_eq!(document.len(), 50_016);
        assert!(envelope.contains(&STANDARD.encode(&document)));
    }
}
