//! A backend that is one defect, for tests of what stands between a caller and a panic.

use runledger_core::{
    AgentFilter, AgentRun, AnswerForm, Backend, CompactReport, Error, ExpiredFilter, ExportRecord, Id, NodeFilter, NodeRun, PageRequest,
    ProjectSummary, Result, Rows, Run, RunFilter, RunStats, StoreInfo, VerifyReport, Work,
};

/// A backend of which every call is a defect: it panics with "a defect on purpose".
#[derive(Debug)]
pub struct Defective;

macro_rules! defective {
    ($(fn $name:ident($($argument:ty),*) $(-> $answer:ty)?;)*) => {
        impl Backend for Defective {
            $(fn $name(&self, $(_: $argument),*) $(-> $answer)? { panic!("a defect on purpose") })*
            fn shares_commits(&self) -> bool { true }
            fn broken(&self) -> Option<Error> { None }
            fn is_read_only(&self) -> bool { false }
        }
    };
}

defective! {
    fn write(&mut dyn Work) -> Result<()>;
    fn get_run(&Id, &Id, AnswerForm) -> Result<Option<Run>>;
    fn get_node(&Id, &Id, AnswerForm) -> Result<Option<NodeRun>>;
    fn get_agent(&Id, &Id, AnswerForm) -> Result<Option<AgentRun>>;
    fn list_runs(&RunFilter, &PageRequest) -> Result<Rows<Run>>;
    fn list_nodes(&NodeFilter, &PageRequest) -> Result<Rows<NodeRun>>;
    fn list_agents(&AgentFilter, &PageRequest) -> Result<Rows<AgentRun>>;
    fn list_projects(&PageRequest) -> Result<Rows<ProjectSummary>>;
    fn latest_runs(&Id, &[Id], AnswerForm) -> Result<Vec<Run>>;
    fn expired_runs(&ExpiredFilter, AnswerForm) -> Result<(Vec<Run>, bool)>;
    fn expired_agents(&ExpiredFilter, AnswerForm) -> Result<(Vec<AgentRun>, bool)>;
    fn run_stats(&Id, Option<&[Id]>) -> Result<RunStats>;
    fn export(&mut dyn FnMut(ExportRecord) -> Result<()>) -> Result<()>;
    fn info() -> Result<StoreInfo>;
    fn verify() -> Result<VerifyReport>;
    fn compact() -> Result<CompactReport>;
    fn close() -> Result<()>;
}
