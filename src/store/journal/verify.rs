//! Reading everything.

use super::{
    FrameRef, JournalError, Location, VerifyFault, VerifyReport,
    batch::Batch,
    chores::scan_whole,
    segment::{BatchReader, SegmentHead},
    shared::Shared,
    sidecar::{Sealed, Sidecar, SidecarError},
};

impl VerifyReport {
    fn fault(&mut self, segment: u64, offset: u64, what: &'static str) {
        if self.faults.len() < Self::FAULTS_MAX {
            self.faults.push(VerifyFault { segment, offset, what });
        }
    }
}

impl Shared {
    pub(super) fn scan(&self, on: &mut dyn FnMut(&FrameRef<'_>, Location)) -> Result<(), JournalError> {
        for (end, epoch) in self.extents() {
            let of = Sealed { number: end.segment, epoch, end: end.offset };
            match self.files.segment(of.number) {
                Err(JournalError::Gone { .. }) => {}
                file => scan_whole(&*file?, of, &mut |batch| batch.for_each(on))?,
            }
        }
        Ok(())
    }

    pub(super) fn verify(
        &self,
        on: &mut dyn FnMut(&FrameRef<'_>, Location),
    ) -> Result<VerifyReport, JournalError> {
        let mut report = VerifyReport::default();
        for (end, epoch) in self.extents() {
            let of = Sealed { number: end.segment, epoch, end: end.offset };
            match self.verify_segment(of, &mut report, on) {
                Err(JournalError::Gone { .. }) => {}
                done => done?,
            }
        }
        for sidecar in &self.sources().sealed {
            verify_sidecar(sidecar, &mut report)?;
        }
        Ok(report)
    }

    fn verify_segment(
        &self,
        of: Sealed,
        report: &mut VerifyReport,
        on: &mut dyn FnMut(&FrameRef<'_>, Location),
    ) -> Result<(), JournalError> {
        let file = self.files.segment(of.number)?;
        report.segments += 1;
        let head = SegmentHead::read(&*file, of.number)?;
        if head.is_none_or(|head| head.epoch != of.epoch) {
            report.fault(of.number, 0, "the head of the segment");
        }
        let mut reader = BatchReader::new(&*file, of.number, of.epoch, of.end);
        while reader.at < of.end {
            if let Some(batch) = reader.next()? {
                verify_batch(&batch, report, on);
            } else {
                report.fault(of.number, reader.at, "a batch");
                if !reader.resume()? {
                    break;
                }
            }
        }
        Ok(())
    }
}

fn verify_batch(batch: &Batch, report: &mut VerifyReport, on: &mut dyn FnMut(&FrameRef<'_>, Location)) {
    report.batches += 1;
    let mut frames = 0;
    let whole = batch.for_each(&mut |frame, at| {
        frames += 1;
        on(frame, at);
    });
    report.frames += frames;
    if !whole {
        report.fault(batch.head.at.segment, batch.head.at.offset, "a frame");
    }
}

fn verify_sidecar(sidecar: &Sidecar, report: &mut VerifyReport) -> Result<(), JournalError> {
    for number in 0..sidecar.blocks() {
        match sidecar.block(number) {
            Ok(_) => {}
            Err(SidecarError::Io(error)) if error.kind() != std::io::ErrorKind::UnexpectedEof => {
                return Err(JournalError::io("read a sidecar")(error));
            }
            Err(_) => report.fault(sidecar.of.number, 0, "a block of the sidecar"),
        }
    }
    Ok(())
}
