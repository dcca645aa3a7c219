//! Mistakes that real products made, or nearly. The simulation must see every one of them.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mutant {
    None,
    /// The receipt goes out before the transaction is durable.
    AnswerBeforeFlush,
    /// A repeat gets a receipt made anew.
    RebuiltReceipt,
    /// The sender makes a new MessageId for each try.
    NewIdOnRetry,
    /// Key and answer are durable before the inbox entry.
    LogAndInboxInTwoCommits,
    /// The inbox entry is not written now and then.
    InboxForgotten,
    /// The decision is taken without a claim and not looked at again when it is committed.
    DecideOutsideTransaction,
    /// A refused message keeps its id.
    BurntIdOnRefusal,
    /// A repeat of a refused message gets a receipt.
    ReceiptForFailedFirst,
    /// Other content under a known id gets a receipt over the new digests.
    ReceiptOverNewDigests,
    /// The log is keyed by MessageId alone although the scope is `party+id`.
    ScopeIgnored,
    /// A retry that was signed anew counts as other content.
    MessagingDigestCompared,
    /// A retry that was packed anew counts as other content.
    NoCloserLook,
    /// Any repeat of a key is a repeat, without a look at its content.
    ContentIgnored,
    /// The purge forgets too early.
    PurgedEarly,
    /// Each repeat makes the window longer.
    WindowProlonged,
    /// A commit is not checked against the claim it was made under.
    FenceIgnored,
    /// A message takes its id before it has been authenticated.
    IdTakenUnauthenticated,
    /// A repeat while the first is in progress gets a final error.
    FinalErrorWhileInProgress,
    /// A claim outlives the process that made it.
    ClaimNeverFreed,
    /// Of the window then and the window now the shorter holds.
    ShorterWindowHolds,
}

impl Mutant {
    pub(crate) const ALL: [Self; 20] = [
        Self::AnswerBeforeFlush,
        Self::RebuiltReceipt,
        Self::NewIdOnRetry,
        Self::LogAndInboxInTwoCommits,
        Self::InboxForgotten,
        Self::DecideOutsideTransaction,
        Self::BurntIdOnRefusal,
        Self::ReceiptForFailedFirst,
        Self::ReceiptOverNewDigests,
        Self::ScopeIgnored,
        Self::MessagingDigestCompared,
        Self::NoCloserLook,
        Self::ContentIgnored,
        Self::PurgedEarly,
        Self::WindowProlonged,
        Self::FenceIgnored,
        Self::IdTakenUnauthenticated,
        Self::FinalErrorWhileInProgress,
        Self::ClaimNeverFreed,
        Self::ShorterWindowHolds,
    ];
}
