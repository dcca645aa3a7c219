//! The promise in fifteen lines: a real invoice, a lost answer, a crash, and one delivery.

use std::{io::Write, time::Duration};

use crate::{
    Fault,
    client::{Answer, Body},
    composer::{Claim, Draft, Package},
    demand,
    process::wait_until,
    product::{Product, Transport},
    receipt::{self, Kind, fingerprint},
    scene::{RECEIVER, SENDER, Scene},
};

/// About the size of the invoices, in bytes.
const INVOICE_BYTES: u64 = 10_000;
/// How long a message whose sender hung up may take to arrive.
const ARRIVAL: Duration = Duration::from_secs(20);

/// Runs it, a line for each step.
///
/// # Errors
/// [`Fault::Broken`] when a promise was not kept.
pub fn run(out: &mut dyn Write) -> Result<(), Fault> {
    let scene = Scene::set("demo", Transport::Tls, &[])?;
    writeln!(
        out,
        " 1  made a throw-away PKI: {SENDER} sends (corner 2), {RECEIVER} is OncePoint (corner 3)"
    )?;
    let product = scene.site.start()?;
    writeln!(out, " 2  OncePoint is ready at {} (pid {})", scene.site.as4().url(), product.pid())?;
    let mut show = Show { out, scene: &scene };
    let first = scene.invoice(INVOICE_BYTES);
    let second = scene.invoice(INVOICE_BYTES);
    let receipts = show.before_the_crash(product, &first, &second)?;
    let product = scene.site.start()?;
    writeln!(show.out, " 9  OncePoint is ready again (pid {})", product.pid())?;
    show.after_the_crash(&receipts)?;
    let status = product.stop()?;
    demand!(status.success(), "SIGTERM ended with {status}");
    writeln!(show.out, "15  drained and ended with status 0: every promise was kept")?;
    Ok(())
}

struct Show<'a> {
    out: &'a mut dyn Write,
    scene: &'a Scene,
}

/// What was sent before the crash.
struct Sent {
    first: Package,
    receipt: Answer,
    lost: Package,
}

impl Show<'_> {
    fn send(&mut self, line: &str, package: &Package, same: Option<&Answer>) -> Result<Answer, Fault> {
        let answer = self.scene.site.as4().post(package)?;
        receipt::prove(&answer, &package.claim, &self.scene.receiver.certificate)
            .or_else(|fault| if same.is_some() { Ok(()) } else { Err(fault) })?;
        if let Some(first) = same {
            demand!(
                answer.is_same(first),
                "{line}: another answer, {}",
                String::from_utf8_lossy(&answer.body)
            );
        }
        writeln!(self.out, "{line:62}receipt {}", fingerprint(&answer))?;
        Ok(answer)
    }

    fn before_the_crash(&mut self, product: Product, first: &Draft, second: &Draft) -> Result<Sent, Fault> {
        let package = first.compose()?;
        let receipt = self.send(" 3  sent an invoice", &package, None)?;
        self.send(" 4  sent the same bytes again", &package, Some(&receipt))?;
        self.send(
            " 5  sent it signed and encrypted anew, as Holodeck does",
            &first.signed_anew().compose()?,
            Some(&receipt),
        )?;
        self.conflict(first)?;
        let lost = second.compose()?;
        self.hang_up(&lost)?;
        product.kill()?;
        writeln!(self.out, " 8  killed OncePoint (kill -9)")?;
        Ok(Sent { first: package, receipt, lost })
    }

    fn conflict(&mut self, first: &Draft) -> Result<(), Fault> {
        let answer = self.scene.site.as4().post(&first.with_other_content().compose()?)?;
        let kind = receipt::kind(&answer);
        demand!(
            kind == Kind::Errors(vec!["EBMS:0003".to_owned()]),
            "other content under a used id: {kind:?}"
        );
        writeln!(self.out, " 6  sent another invoice under the same MessageId: refused with EBMS:0003")?;
        Ok(())
    }

    /// Sends a second invoice and closes the connection before the answer; it arrives all the same.
    fn hang_up(&mut self, lost: &Package) -> Result<(), Fault> {
        let endpoint = self.scene.site.as4();
        let mut connection = endpoint.connect()?;
        let headers = [("Content-Type", lost.content_type.as_str())];
        connection.send("POST", &endpoint.path, &headers, Body::Bytes(&lost.body))?;
        connection.abort()?;
        let connector = self.scene.site.connector();
        let arrived = wait_until(ARRIVAL, || Ok(connector.list("available")?.len() >= 2))?;
        demand!(arrived, "the message whose sender hung up did not arrive");
        writeln!(self.out, " 7  sent a second invoice and hung up before its receipt came")?;
        Ok(())
    }

    fn after_the_crash(&mut self, sent: &Sent) -> Result<(), Fault> {
        self.send("10  sent the first invoice again", &sent.first, Some(&sent.receipt))?;
        let late = self.send("11  sent the second invoice again", &sent.lost, None)?;
        self.pull([&sent.first.claim, &sent.lost.claim])?;
        self.send("13  sent the first invoice once more", &sent.first, Some(&sent.receipt))?;
        self.send("    ... and the second", &sent.lost, Some(&late))?;
        let more = self.scene.site.connector().claim(10)?;
        demand!(more.is_empty(), "delivered twice: {more:?}");
        writeln!(self.out, "14  the backend pulled again: nothing new, each invoice entered it once")?;
        Ok(())
    }

    fn pull(&mut self, claims: [&Claim; 2]) -> Result<(), Fault> {
        let connector = self.scene.site.connector();
        let items = connector.claim(10)?;
        demand!(items.len() == 2, "the backend was handed {} deliveries, not 2: {items:?}", items.len());
        for claim in claims {
            let item = items.iter().find(|item| item.message_id == claim.message_id);
            let item =
                item.ok_or_else(|| Fault::broken(format_args!("{} was not delivered", claim.message_id)))?;
            let (document, _) = connector.digest(&item.id, "document")?;
            let (sbd, _) = connector.digest(&item.id, "sbd")?;
            demand!(document == claim.document_sha256, "another document was delivered: {document}");
            demand!(sbd == claim.sbd_sha256, "another envelope was delivered: {sbd}");
        }
        let acked = connector.ack(&items)?;
        demand!(acked.iter().all(|result| result == "acked"), "acknowledged: {acked:?}");
        writeln!(self.out, "12  the backend pulled both invoices, byte for byte, and acknowledged them")?;
        Ok(())
    }
}
