//! Arguments that several commands take.

use clap::Args;
use runledger::{AnswerForm, EndStatus, Id, Order, Status, Time};

use crate::context::Context;
use crate::screen::time::When;

/// Which part of a list.
#[derive(Args)]
pub(crate) struct Paging {
    /// The most rows
    #[arg(long, default_value_t = runledger::DEFAULT_PAGE, value_name = "N")]
    pub(crate) limit: u32,
    /// All rows, however many
    #[arg(long, conflicts_with_all = ["limit", "cursor"])]
    pub(crate) all: bool,
    /// Go on where an earlier page ended
    #[arg(long, value_name = "CURSOR")]
    pub(crate) cursor: Option<String>,
    /// The direction: desc has the newest first
    #[arg(long, value_parser = order, default_value = "desc", value_name = "asc|desc")]
    pub(crate) order: Order,
    /// With payloads and prompts, in JSON
    #[arg(long)]
    payloads: bool,
}

impl Paging {
    pub(crate) fn answer(&self) -> AnswerForm {
        answer(self.payloads)
    }
}

/// How much of a record to read.
pub(crate) fn answer(with_payloads: bool) -> AnswerForm {
    if with_payloads { AnswerForm::Record } else { AnswerForm::State }
}

/// Between which times.
#[derive(Args)]
pub(crate) struct Span {
    /// Not before: 2h ago, or a time such as 2026-03-01T09:30:00Z
    #[arg(long, value_name = "2h|TIME")]
    since: Option<When>,
    /// Not after
    #[arg(long, value_name = "2h|TIME")]
    until: Option<When>,
}

impl Span {
    pub(crate) fn after(&self, cx: &Context) -> Option<Time> {
        self.since.map(|when| when.time(cx.now))
    }

    pub(crate) fn before(&self, cx: &Context) -> Option<Time> {
        self.until.map(|when| when.time(cx.now))
    }
}

/// The ids of a filter; none given is no filter.
pub(crate) fn ids(given: &[String]) -> Option<Vec<Id>> {
    (!given.is_empty()).then(|| given.iter().map(Id::from).collect())
}

pub(crate) fn order(name: &str) -> Result<Order, String> {
    Order::ALL.iter().copied().find(|order| order.as_str() == name).ok_or_else(|| "asc or desc".to_owned())
}

pub(crate) fn status(name: &str) -> Result<Status, String> {
    Status::from_name(name).ok_or_else(|| one_of(Status::ALL.iter().map(|status| status.as_str())))
}

pub(crate) fn end_status(name: &str) -> Result<EndStatus, String> {
    EndStatus::from_name(name).ok_or_else(|| one_of(EndStatus::ALL.iter().map(|status| status.as_str())))
}

fn one_of<'n>(names: impl Iterator<Item = &'n str>) -> String {
    format!("one of {}", names.collect::<Vec<_>>().join(", "))
}
