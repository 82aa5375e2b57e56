/*
 * runledger for C++17: the C interface of runledger.h with owning handles, exceptions, and a type for every operation.
 *
 *     auto ledger = runledger::Ledger::open("sqlite:runs.db");
 *     ledger.queue_run({"shop", "r1", "ship-order", R"({"order": 17})"});
 *     for (const auto& run : ledger.list_runs({"shop"}).rows) std::cout << run.id << '\n';
 *
 * Every call may throw runledger::Error. A Ledger is moved, not copied, and any number of threads may call it at once; what
 * it answers are plain values. Payloads are JSON text, kept byte for byte. What runledger.h says of forks, of files that the
 * process has open by other means, and of callbacks holds here too, but that callbacks may throw: the call is stopped then,
 * and the exception goes on to its caller.
 */

#ifndef RUNLEDGER_HPP
#define RUNLEDGER_HPP

#include "runledger.h"

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <istream>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace runledger {

/// An instant in microseconds.
using Time = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

/// The present instant.
inline Time now() {
    return std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
}

/// What went wrong, with the numbers of the C interface.
enum class Code : std::int32_t {
    invalid_input = RUNLEDGER_INVALID_INPUT,
    not_found = RUNLEDGER_NOT_FOUND,
    already_exists = RUNLEDGER_ALREADY_EXISTS,
    invalid_transition = RUNLEDGER_INVALID_TRANSITION,
    stale_token = RUNLEDGER_STALE_TOKEN,
    workflow_mismatch = RUNLEDGER_WORKFLOW_MISMATCH,
    not_agent_node = RUNLEDGER_NOT_AGENT_NODE,
    lease_active = RUNLEDGER_LEASE_ACTIVE,
    conflict = RUNLEDGER_CONFLICT,
    busy = RUNLEDGER_BUSY,
    locked = RUNLEDGER_LOCKED,
    read_only = RUNLEDGER_READ_ONLY,
    full = RUNLEDGER_FULL,
    io = RUNLEDGER_IO,
    corrupt = RUNLEDGER_CORRUPT,
    schema_too_new = RUNLEDGER_SCHEMA_TOO_NEW,
    not_a_ledger = RUNLEDGER_NOT_A_LEDGER,
    unsupported = RUNLEDGER_UNSUPPORTED,
    closed = RUNLEDGER_CLOSED,
    unavailable = RUNLEDGER_UNAVAILABLE,
    internal = RUNLEDGER_INTERNAL,
    too_large = RUNLEDGER_TOO_LARGE,
    interrupted = RUNLEDGER_INTERRUPTED
};

/// The error of every call.
class Error : public std::runtime_error {
public:
    Error(Code code, const std::string& message, bool retryable = false, std::string details = "{}")
        : std::runtime_error(message), code_(code), retryable_(retryable), details_(std::move(details)) {}

    /// The stable code.
    Code code() const noexcept { return code_; }
    /// Its name, such as "not_found".
    const char* name() const noexcept { return runledger_status_name(static_cast<std::int32_t>(code_)); }
    /// Whether the same call may succeed when it is made again.
    bool retryable() const noexcept { return retryable_; }
    /// The facts, as a JSON object.
    const std::string& details() const noexcept { return details_; }

private:
    Code code_;
    bool retryable_;
    std::string details_;
};

/// The status of a run, node run or agent run.
enum class Status { queued, running, waiting, succeeded, failed, cancelled };

/// How much of a record an answer holds: all of it, or all but its payloads and prompt.
enum class AnswerForm { record, state };

/// The direction of a list.
enum class Order { asc, desc };

/// One JSON value as text. The JSON value null is Payload("null"); none at all is an empty optional.
struct Payload {
    std::string json;

    Payload() = default;
    Payload(std::string text) : json(std::move(text)) {} // NOLINT: text is what a payload is.
    Payload(const char* text) : json(text) {}            // NOLINT: as above.
};

/// Who asked for something.
struct Principal {
    std::string type;
    std::string id;
};

/// Who owns a run or agent run now, and until when.
struct Execution {
    std::string token;
    Time lease_expires_at;
};

namespace detail {

constexpr std::array<const char*, 6> statuses{"queued", "running", "waiting", "succeeded", "failed", "cancelled"};

inline const char* name(Status status) { return statuses[static_cast<std::size_t>(status)]; }
inline const char* name(AnswerForm form) { return form == AnswerForm::state ? "state" : "record"; }
inline const char* name(Order order) { return order == Order::asc ? "asc" : "desc"; }

/// Throws what a function answered, unless that is success. The error is taken by reference, since it is there only after
/// the call that is the other argument.
inline void check(std::int32_t status, runledger_error*& error) {
    if (status == RUNLEDGER_OK) return;
    const std::unique_ptr<runledger_error, decltype(&runledger_error_free)> owned(error, runledger_error_free);
    std::size_t len = 0;
    const char* message = runledger_error_message(error, &len);
    std::string text(message, len);
    const char* details = runledger_error_details(error, &len);
    throw Error(static_cast<Code>(status), text, runledger_error_retryable(error), std::string(details, len));
}

inline std::string quoted(const std::string& text) {
    static constexpr char digits[] = "0123456789abcdef";
    std::string json = "\"";
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (byte < 0x20) {
            json += "\\u00";
            json += digits[byte >> 4];
            json += digits[byte & 15];
        } else {
            json += c;
        }
    }
    return json += '"';
}

/// A request that is being put together.
class Request {
public:
    explicit Request(const char* op) : request_(nullptr, runledger_request_free) {
        runledger_request* request = nullptr;
        runledger_error* error = nullptr;
        check(runledger_request_new(op, &request, &error), error);
        request_.reset(request);
    }

    runledger_request* get() const { return request_.get(); }

    // What is refused is remembered by the request, and thrown by the call.
    void set(const char* field, const std::string& value) {
        runledger_request_set_str(get(), field, value.data(), value.size());
    }
    void set(const char* field, const char* value) { runledger_request_set_str(get(), field, value, RUNLEDGER_NTS); }
    void set(const char* field, const Payload& value) {
        runledger_request_set_json(get(), field, value.json.data(), value.json.size());
    }
    void set(const char* field, Time value) {
        runledger_request_set_time_us(get(), field, value.time_since_epoch().count());
    }
    void set(const char* field, bool value) { runledger_request_set_bool(get(), field, value); }
    void set(const char* field, std::uint32_t value) { runledger_request_set_i64(get(), field, value); }
    void set(const char* field, std::uint64_t value) { set(field, Payload(std::to_string(value))); }
    void set(const char* field, Status value) { set(field, name(value)); }
    void set(const char* field, AnswerForm value) { set(field, name(value)); }
    void set(const char* field, Order value) { set(field, name(value)); }
    void set(const char* field, const Principal& value) {
        const std::string object(field);
        set((object + ".type").c_str(), value.type);
        set((object + ".id").c_str(), value.id);
    }
    void set(const char* field, const Execution& value) {
        const std::string object(field);
        set((object + ".token").c_str(), value.token);
        set((object + ".queueLeaseExpiresAt").c_str(), value.lease_expires_at);
    }
    template <class T> void set(const char* field, const std::vector<T>& values) {
        std::string json = "[";
        for (const T& value : values) {
            if (json.size() > 1) json += ',';
            json += quoted(text_of(value));
        }
        set(field, Payload(json + "]"));
    }
    template <class T> void set(const char* field, const std::optional<T>& value) {
        if (value) set(field, *value);
    }

private:
    static const std::string& text_of(const std::string& value) { return value; }
    static std::string text_of(Status value) { return name(value); }

    std::unique_ptr<runledger_request, decltype(&runledger_request_free)> request_;
};

/// An answer.
class Doc {
public:
    explicit Doc(runledger_doc* doc) : doc_(doc, runledger_doc_free) {}
    const runledger_doc* get() const { return doc_.get(); }
    bool is_null() const { return runledger_doc_is_null(get()); }
    std::string json() const {
        std::size_t len = 0;
        const char* text = runledger_doc_json(get(), &len);
        return std::string(text, len);
    }

private:
    std::unique_ptr<runledger_doc, decltype(&runledger_doc_free)> doc_;
};

/// A value in an answer, of which members are read.
class Reader {
public:
    Reader(const Doc& doc, std::string place) : doc_(&doc), place_(std::move(place)) {}

    Reader at(const std::string& token) const { return Reader(*doc_, place_ + "/" + token); }

    std::size_t size() const {
        std::size_t len = 0;
        runledger_doc_len(doc_->get(), place_.c_str(), &len);
        return len;
    }

    /// Reads a member that must be there.
    template <class T> void get(const char* member, T& into) const {
        if (!at(member).read(into)) throw Error(Code::internal, "an answer has no " + place_ + "/" + member);
    }
    /// Reads a member that may be absent.
    template <class T> void get(const char* member, std::optional<T>& into) const {
        T value{};
        if (at(member).read(value)) into = std::move(value);
        else into.reset();
    }
    template <class T> void get(const char* member, std::vector<T>& into) const {
        const Reader list = at(member);
        into.resize(list.size());
        for (std::size_t i = 0; i < into.size(); ++i) list.get(std::to_string(i).c_str(), into[i]);
    }

private:
    bool read(std::string& into) const { return text(runledger_doc_str, into); }
    bool read(Payload& into) const { return text(runledger_doc_raw, into.json); }
    bool read(bool& into) const { return runledger_doc_bool(doc_->get(), place_.c_str(), &into) == RUNLEDGER_OK; }
    bool read(std::int64_t& into) const { return runledger_doc_i64(doc_->get(), place_.c_str(), &into) == RUNLEDGER_OK; }
    bool read(std::uint64_t& into) const { return number(into); }
    bool read(std::uint32_t& into) const { return number(into); }
    bool read(Time& into) const {
        std::int64_t us = 0;
        const bool there = runledger_doc_time_us(doc_->get(), place_.c_str(), &us) == RUNLEDGER_OK;
        into = Time(std::chrono::microseconds(us));
        return there;
    }
    bool read(Status& into) const {
        std::string word;
        if (!read(word)) return false;
        for (std::size_t i = 0; i < statuses.size(); ++i) {
            if (word == statuses[i]) {
                into = static_cast<Status>(i);
                return true;
            }
        }
        return false;
    }
    bool read(Principal& into) const { return at("type").read(into.type) && at("id").read(into.id); }
    bool read(Execution& into) const {
        return at("token").read(into.token) && at("queueLeaseExpiresAt").read(into.lease_expires_at);
    }
    /// Anything that reads its own members.
    template <class T> auto read(T& into) const -> decltype(into.read(*this), bool()) {
        into.read(*this);
        return true;
    }

    template <class N> bool number(N& into) const {
        std::int64_t value = 0;
        const bool there = read(value);
        into = static_cast<N>(value);
        return there;
    }
    template <class Read> bool text(Read function, std::string& into) const {
        const char* start = nullptr;
        std::size_t len = 0;
        if (function(doc_->get(), place_.c_str(), &start, &len) != RUNLEDGER_OK) return false;
        into.assign(start, len);
        return true;
    }

    const Doc* doc_;
    std::string place_;
};

} // namespace detail

/// One execution of a workflow.
struct Run {
    std::string project_id; ///< The project that the run belongs to; with id, the key.
    std::string id; ///< The run's id within its project.
    std::string workflow_id; ///< The workflow of which this is an execution.
    Status status = Status::queued; ///< Where the run stands.
    std::optional<Payload> input; ///< What the workflow was given; absent only in a state answer.
    std::optional<Time> queued_at; ///< When it was queued, if it went through the queue.
    Time started_at; ///< When it started; equals queued_at until then.
    std::optional<Time> waiting_since; ///< Since when it waits, only while it does.
    std::optional<Time> finished_at; ///< When it ended, only once it has.
    /// What it came to, only if it succeeded and gave something; absent in a state answer.
    std::optional<Payload> output;
    std::optional<std::string> error; ///< Why it failed or was cancelled, if that was given.
    std::optional<Payload> source; ///< What triggered it, if that was given; absent in a state answer.
    Principal requested_by_principal; ///< Who asked for it.
    /// How often it was started, claimed, reclaimed or resumed; 0 while it was never begun.
    std::uint32_t attempt = 0;
    std::optional<Execution> execution; ///< Who owns it now, and until when.

    void read(const detail::Reader& in) {
        in.get("projectId", project_id);
        in.get("id", id);
        in.get("workflowId", workflow_id);
        in.get("status", status);
        in.get("input", input);
        in.get("queuedAt", queued_at);
        in.get("startedAt", started_at);
        in.get("waitingSince", waiting_since);
        in.get("finishedAt", finished_at);
        in.get("output", output);
        in.get("error", error);
        in.get("source", source);
        in.get("requestedByPrincipal", requested_by_principal);
        in.get("attempt", attempt);
        in.get("execution", execution);
    }
};

/// One step of a run. It has no token of its own: the run's owner owns its nodes.
struct NodeRun {
    std::string project_id; ///< The project that the node run belongs to; with id, the key.
    std::string id; ///< The node run's id within its project.
    std::string workflow_run_id; ///< The run of which this is a step.
    std::string workflow_id; ///< The workflow of that run.
    std::uint32_t node_index = 0; ///< The step's place in its workflow.
    std::string node_type; ///< What kind of step; agent is the one with a meaning here.
    std::string node_id; ///< The step's id in its workflow.
    std::string node_key; ///< The step's key in its workflow.
    Status status = Status::queued; ///< Where the step stands.
    std::optional<Payload> input; ///< What the step was given; absent only in a state answer.
    Time started_at; ///< When it started.
    std::optional<Time> waiting_since; ///< Since when it waits, only while it does.
    std::optional<Time> finished_at; ///< When it ended, only once it has.
    /// What it came to, only if it succeeded and gave something; absent in a state answer.
    std::optional<Payload> output;
    std::optional<std::string> error; ///< Why it failed or was cancelled, if that was given.

    void read(const detail::Reader& in) {
        in.get("projectId", project_id);
        in.get("id", id);
        in.get("workflowRunId", workflow_run_id);
        in.get("workflowId", workflow_id);
        in.get("nodeIndex", node_index);
        in.get("nodeType", node_type);
        in.get("nodeId", node_id);
        in.get("nodeKey", node_key);
        in.get("status", status);
        in.get("input", input);
        in.get("startedAt", started_at);
        in.get("waitingSince", waiting_since);
        in.get("finishedAt", finished_at);
        in.get("output", output);
        in.get("error", error);
    }
};

/// The agent execution behind a node run of type agent; a node run has at most one.
struct AgentRun {
    std::string project_id; ///< The project that the agent run belongs to; with node_run_id, the key.
    std::string node_run_id; ///< The node run that it executes.
    std::string agent_id; ///< The agent that does it.
    Status status = Status::queued; ///< Where the agent run stands.
    std::optional<std::string> prompt; ///< What the agent was asked; absent only in a state answer.
    std::optional<Principal> execution_principal; ///< On whose behalf it runs.
    std::optional<std::string> model_id; ///< The model it uses.
    std::optional<std::string> finish_reason; ///< Why the model stopped.
    std::optional<Payload> usage; ///< What it used up; absent in a state answer.
    std::optional<Payload> trace; ///< What it did; absent in a state answer.
    std::optional<Payload> diagnostics; ///< What it noted about itself; absent in a state answer.
    std::optional<std::string> error; ///< Why it failed or was cancelled, if that was given.
    std::uint32_t attempt = 0; ///< How often it was started, claimed or reclaimed; 0 while it was never begun.
    std::optional<Execution> execution; ///< Who owns it now, and until when.
    Time created_at; ///< When it was created.
    std::optional<Time> started_at; ///< When it was started, if it was.
    std::optional<Time> completed_at; ///< When it ended, only once it has.

    void read(const detail::Reader& in) {
        in.get("projectId", project_id);
        in.get("nodeRunId", node_run_id);
        in.get("agentId", agent_id);
        in.get("status", status);
        in.get("prompt", prompt);
        in.get("executionPrincipal", execution_principal);
        in.get("modelId", model_id);
        in.get("finishReason", finish_reason);
        in.get("usage", usage);
        in.get("trace", trace);
        in.get("diagnostics", diagnostics);
        in.get("error", error);
        in.get("attempt", attempt);
        in.get("execution", execution);
        in.get("createdAt", created_at);
        in.get("startedAt", started_at);
        in.get("completedAt", completed_at);
    }
};

/// A page of a list.
template <class T> struct Page {
    std::vector<T> rows;
    std::optional<std::uint64_t> total;     ///< How many rows match in all, if that was asked.
    bool has_more = false;                  ///< Whether another row follows the page.
    std::optional<std::string> next_cursor; ///< Where the next page begins.
};

/// Expired leases.
template <class T> struct Expired {
    std::vector<T> rows;
    bool has_more = false; ///< Whether there are more than the limit.
};

/// What a delete removed.
struct Deleted {
    std::uint64_t runs = 0, nodes = 0, agents = 0;

    void read(const detail::Reader& in) {
        in.get("runs", runs);
        in.get("nodes", nodes);
        in.get("agents", agents);
    }
};

/// How many records an export has.
using Counts = Deleted;

/// What a purge removed.
struct Purged {
    std::uint64_t runs = 0, nodes = 0, agents = 0;
    bool has_more = false; ///< Whether more runs match than the limit.

    void read(const detail::Reader& in) {
        in.get("runs", runs);
        in.get("nodes", nodes);
        in.get("agents", agents);
        in.get("hasMore", has_more);
    }
};

/// What an import, a copy or a restore did.
struct Imported {
    std::uint64_t runs = 0, nodes = 0, agents = 0;
    std::uint64_t skipped = 0; ///< Records that were there already and equal.

    void read(const detail::Reader& in) {
        in.get("runs", runs);
        in.get("nodes", nodes);
        in.get("agents", agents);
        in.get("skipped", skipped);
    }
};

/// A backup that was made.
struct Backup {
    std::string form; ///< "store", which is opened at its path, or "stream", which is imported.
    std::uint64_t size_bytes = 0;

    void read(const detail::Reader& in) {
        in.get("form", form);
        in.get("sizeBytes", size_bytes);
    }
};

/// How many runs there are, by status.
struct StatusCounts {
    std::uint64_t total = 0;
    std::array<std::uint64_t, 6> by_status{}; ///< In the order of Status.

    std::uint64_t of(Status status) const { return by_status[static_cast<std::size_t>(status)]; }

    void read(const detail::Reader& in) {
        in.get("total", total);
        for (std::size_t i = 0; i < by_status.size(); ++i) in.at("byStatus").get(detail::statuses[i], by_status[i]);
    }
};

/// How many runs of one workflow there are.
struct WorkflowCounts {
    std::string workflow_id;
    StatusCounts counts;

    void read(const detail::Reader& in) {
        in.get("workflowId", workflow_id);
        counts.read(in);
    }
};

/// How many runs of a project there are.
struct RunStats {
    StatusCounts counts;
    std::vector<WorkflowCounts> by_workflow;

    void read(const detail::Reader& in) {
        counts.read(in);
        in.get("byWorkflow", by_workflow);
    }
};

/// A project that has runs.
struct ProjectSummary {
    std::string project_id;
    std::uint64_t runs = 0;

    void read(const detail::Reader& in) {
        in.get("projectId", project_id);
        in.get("runs", runs);
    }
};

/// What a store is and how it was opened.
struct StoreInfo {
    std::string backend, address;
    std::uint32_t schema_version = 0;
    std::string library_version, engine_name, engine_version, durability, mode;
    std::uint64_t size_bytes = 0;

    void read(const detail::Reader& in) {
        in.get("backend", backend);
        in.get("address", address);
        in.get("schemaVersion", schema_version);
        in.get("libraryVersion", library_version);
        in.at("engine").get("name", engine_name);
        in.at("engine").get("version", engine_version);
        in.get("durability", durability);
        in.get("mode", mode);
        in.get("sizeBytes", size_bytes);
    }
};

/// Something in a store that is not as it must be.
struct Problem {
    std::string kind, message;
    std::optional<std::string> entity, project_id, id;

    void read(const detail::Reader& in) {
        in.get("kind", kind);
        in.get("message", message);
        in.get("entity", entity);
        in.get("projectId", project_id);
        in.get("id", id);
    }
};

/// What a verification found.
struct VerifyReport {
    bool ok = false;
    Counts checked;
    std::vector<Problem> problems;
    std::string engine_check; ///< "done" or "skipped".

    void read(const detail::Reader& in) {
        in.get("ok", ok);
        in.get("checked", checked);
        in.get("problems", problems);
        in.get("engineCheck", engine_check);
    }
};

/// What a compaction gained.
struct CompactReport {
    std::uint64_t bytes_before = 0, bytes_after = 0;

    void read(const detail::Reader& in) {
        in.get("bytesBefore", bytes_before);
        in.get("bytesAfter", bytes_after);
    }
};

namespace detail {

constexpr const char* rows_of(const Run*) { return "runs"; }
constexpr const char* rows_of(const NodeRun*) { return "nodes"; }
constexpr const char* rows_of(const AgentRun*) { return "agents"; }
constexpr const char* rows_of(const ProjectSummary*) { return "projects"; }

template <class T> void take(const Doc& doc, T& into) { into.read(Reader(doc, "")); }

template <class T> void take(const Doc& doc, std::optional<T>& into) {
    if (!doc.is_null()) take(doc, into.emplace());
}

template <class T> void take(const Doc& doc, std::vector<T>& into) {
    Reader(doc, "").get(rows_of(static_cast<const T*>(nullptr)), into);
}

template <class T> void take(const Doc& doc, Page<T>& into) {
    take(doc, into.rows);
    const Reader page(doc, "");
    page.get("total", into.total);
    page.get("hasMore", into.has_more);
    page.get("nextCursor", into.next_cursor);
}

template <class T> void take(const Doc& doc, Expired<T>& into) {
    take(doc, into.rows);
    Reader(doc, "").get("hasMore", into.has_more);
}

} // namespace detail

/// Queues a new run.
struct QueueRun {
    std::string project_id; ///< The project.
    std::string id; ///< The new run's id.
    std::string workflow_id; ///< The workflow.
    Payload input; ///< What the workflow is given.
    std::optional<Time> queued_at = std::nullopt; ///< When it is queued; the clock's time when not given.
    std::optional<Payload> source = std::nullopt; ///< What triggered it.
    /// Who asked for it; system, system when not given.
    std::optional<Principal> requested_by_principal = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.queue";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("workflowId", workflow_id);
        request.set("input", input);
        request.set("queuedAt", queued_at);
        request.set("source", source);
        request.set("requestedByPrincipal", requested_by_principal);
        request.set("answer", answer);
    }
};

/// Starts a new run, or one that is queued.
struct StartRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    std::string workflow_id; ///< The workflow; a queued run must be of it.
    Payload input; ///< What the workflow is given; it replaces a queued run's.
    std::optional<Time> started_at = std::nullopt; ///< When it starts; the clock's time when not given.
    std::optional<Payload> source = std::nullopt; ///< What triggered it; a queued run that has one keeps its own.
    std::optional<Principal> requested_by_principal = std::nullopt; ///< Who asked for it; a queued run keeps its own.
    /// Who owns it from now on; without one, calls without a token own it.
    std::optional<Execution> execution = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.start";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("workflowId", workflow_id);
        request.set("input", input);
        request.set("startedAt", started_at);
        request.set("source", source);
        request.set("requestedByPrincipal", requested_by_principal);
        request.set("execution", execution);
        request.set("answer", answer);
    }
};

/// Takes the queued run with the smallest (queuedAt, id), if there is one. Two claimers never get the same run.
struct ClaimRun {
    std::string project_id; ///< The project.
    Execution execution; ///< Who owns the run from now on.
    std::optional<std::vector<std::string>> workflow_ids = std::nullopt; ///< Only runs of these workflows.
    std::optional<Time> started_at = std::nullopt; ///< When it starts; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.claim";
    using Answer = std::optional<Run>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("execution", execution);
        request.set("workflowIds", workflow_ids);
        request.set("startedAt", started_at);
        request.set("answer", answer);
    }
};

/// Takes a running run over from its owner.
struct ReclaimRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    Execution execution; ///< Who owns it from now on.
    /// Refuse unless the current lease ends at or before this time.
    std::optional<Time> lease_expired_by = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.reclaim";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("execution", execution);
        request.set("leaseExpiredBy", lease_expired_by);
        request.set("answer", answer);
    }
};

/// Says that the owner is alive: the lease ends at the later of its current end and the given one.
struct ConfirmRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    std::string execution_token; ///< The owner's token.
    Time lease_expires_at; ///< The new end of the lease.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.confirm";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("executionToken", execution_token);
        request.set("queueLeaseExpiresAt", lease_expires_at);
        request.set("answer", answer);
    }
};

/// Suspends a running run; nobody owns it then.
struct WaitRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    std::optional<std::string> execution_token = std::nullopt; ///< The owner's token, if the run has an execution.
    std::optional<Time> waiting_at = std::nullopt; ///< Since when it waits; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.wait";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("executionToken", execution_token);
        request.set("waitingAt", waiting_at);
        request.set("answer", answer);
    }
};

/// Sets a waiting run to work again.
struct ResumeRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    /// Who owns it from now on; without one, calls without a token own it.
    std::optional<Execution> execution = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.resume";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("execution", execution);
        request.set("answer", answer);
    }
};

/// Ends a run. What is under it stays as it is; CancelRun cancels that too.
struct FinishRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    Status status = Status::succeeded; ///< How it ends; only a running run can succeed.
    std::optional<Time> finished_at = std::nullopt; ///< When it ended; the clock's time when not given.
    std::optional<Payload> output = std::nullopt; ///< What it came to; kept only if it succeeded.
    /// Why it failed or was cancelled; kept only if it did not succeed.
    std::optional<std::string> error = std::nullopt;
    std::optional<std::string> execution_token = std::nullopt; ///< The owner's token, if the run has an execution.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.finish";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("status", status);
        request.set("finishedAt", finished_at);
        request.set("output", output);
        request.set("error", error);
        request.set("executionToken", execution_token);
        request.set("answer", answer);
    }
};

/// Cancels a run and, in the same step, every active node run and agent run under it. No token is asked.
struct CancelRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    std::optional<std::string> error = std::nullopt; ///< Why.
    std::optional<Time> finished_at = std::nullopt; ///< When; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.cancel";
    using Answer = Run;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("error", error);
        request.set("finishedAt", finished_at);
        request.set("answer", answer);
    }
};

/// Deletes an ended run with its node runs and their agent runs.
struct DeleteRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.

    static constexpr const char* op = "runs.delete";
    using Answer = Deleted;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
    }
};

/// Deletes ended runs by (finishedAt, id), with what is under them.
struct PurgeRuns {
    std::string project_id; ///< The project.
    Time finished_before; ///< Only runs that ended strictly before this time.
    std::optional<std::vector<Status>> statuses = std::nullopt; ///< Only runs that ended so.
    std::optional<std::vector<std::string>> workflow_ids = std::nullopt; ///< Only runs of these workflows.
    /// The most runs to delete in this step: 1 to 10,000, and 1,000 when not given.
    std::optional<std::uint32_t> limit = std::nullopt;

    static constexpr const char* op = "runs.purge";
    using Answer = Purged;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("finishedBefore", finished_before);
        request.set("statuses", statuses);
        request.set("workflowIds", workflow_ids);
        request.set("limit", limit);
    }
};

/// Starts a new node run under a running run.
struct StartNode {
    std::string project_id; ///< The project.
    std::string id; ///< The new node run's id.
    std::string workflow_run_id; ///< The run of which it is a step.
    std::string workflow_id; ///< The run's workflow.
    std::uint32_t node_index = 0; ///< The step's place in its workflow.
    std::string node_type; ///< What kind of step; one of type agent can have an agent run.
    std::string node_id; ///< The step's id in its workflow.
    std::string node_key; ///< The step's key in its workflow.
    Payload input; ///< What the step is given.
    std::optional<Time> started_at = std::nullopt; ///< When it starts; the clock's time when not given.
    /// The token of the run's owner, if the run has an execution.
    std::optional<std::string> execution_token = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "nodes.start";
    using Answer = NodeRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("workflowRunId", workflow_run_id);
        request.set("workflowId", workflow_id);
        request.set("nodeIndex", node_index);
        request.set("nodeType", node_type);
        request.set("nodeId", node_id);
        request.set("nodeKey", node_key);
        request.set("input", input);
        request.set("startedAt", started_at);
        request.set("executionToken", execution_token);
        request.set("answer", answer);
    }
};

/// Suspends a running node run.
struct WaitNode {
    std::string project_id; ///< The project.
    std::string id; ///< The node run's id.
    /// The token of the run's owner, if the run has an execution.
    std::optional<std::string> execution_token = std::nullopt;
    std::optional<Time> waiting_at = std::nullopt; ///< Since when it waits; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "nodes.wait";
    using Answer = NodeRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("executionToken", execution_token);
        request.set("waitingAt", waiting_at);
        request.set("answer", answer);
    }
};

/// Ends a running or waiting node run.
struct FinishNode {
    std::string project_id; ///< The project.
    std::string id; ///< The node run's id.
    Status status = Status::succeeded; ///< How it ends.
    std::optional<Time> finished_at = std::nullopt; ///< When it ended; the clock's time when not given.
    std::optional<Payload> output = std::nullopt; ///< What it came to; kept only if it succeeded.
    /// Why it failed or was cancelled; kept only if it did not succeed.
    std::optional<std::string> error = std::nullopt;
    /// The token of the run's owner, if the run has an execution.
    std::optional<std::string> execution_token = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "nodes.finish";
    using Answer = NodeRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("status", status);
        request.set("finishedAt", finished_at);
        request.set("output", output);
        request.set("error", error);
        request.set("executionToken", execution_token);
        request.set("answer", answer);
    }
};

/// Creates the agent run of a running node run of type agent.
struct CreateAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    std::string agent_id; ///< The agent.
    std::string prompt; ///< What the agent is asked.
    std::optional<Time> created_at = std::nullopt; ///< When it is created; the clock's time when not given.
    /// The token of the run's owner; where it is given it must be the right one.
    std::optional<std::string> execution_token = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.create";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("agentId", agent_id);
        request.set("prompt", prompt);
        request.set("createdAt", created_at);
        request.set("executionToken", execution_token);
        request.set("answer", answer);
    }
};

/// Takes the queued agent run with the smallest (createdAt, nodeRunId), if there is one.
struct ClaimAgent {
    std::string project_id; ///< The project.
    Execution execution; ///< Who owns the agent run from now on.
    std::optional<std::vector<std::string>> agent_ids = std::nullopt; ///< Only runs of these agents.
    std::optional<Principal> execution_principal = std::nullopt; ///< On whose behalf it runs.
    std::optional<std::string> model_id = std::nullopt; ///< The model it uses.
    std::optional<Time> started_at = std::nullopt; ///< When it starts; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.claim";
    using Answer = std::optional<AgentRun>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("execution", execution);
        request.set("agentIds", agent_ids);
        request.set("executionPrincipal", execution_principal);
        request.set("modelId", model_id);
        request.set("startedAt", started_at);
        request.set("answer", answer);
    }
};

/// Starts a queued agent run.
struct StartAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    Execution execution; ///< Who owns the agent run from now on.
    std::optional<Principal> execution_principal = std::nullopt; ///< On whose behalf it runs.
    std::optional<std::string> model_id = std::nullopt; ///< The model it uses.
    std::optional<Time> started_at = std::nullopt; ///< When it starts; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.start";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("execution", execution);
        request.set("executionPrincipal", execution_principal);
        request.set("modelId", model_id);
        request.set("startedAt", started_at);
        request.set("answer", answer);
    }
};

/// Takes a running agent run over from its owner.
struct ReclaimAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    Execution execution; ///< Who owns it from now on.
    /// Refuse unless the current lease ends at or before this time.
    std::optional<Time> lease_expired_by = std::nullopt;
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.reclaim";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("execution", execution);
        request.set("leaseExpiredBy", lease_expired_by);
        request.set("answer", answer);
    }
};

/// Says that the agent run's owner is alive: its lease ends at the later of its current end and the given one.
struct ConfirmAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    std::string execution_token; ///< The owner's token.
    Time lease_expires_at; ///< The new end of the lease.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.confirm";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("executionToken", execution_token);
        request.set("queueLeaseExpiresAt", lease_expires_at);
        request.set("answer", answer);
    }
};

/// Ends a running agent run. What is not given keeps its value.
struct FinishAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    std::string execution_token; ///< The owner's token.
    Status status = Status::succeeded; ///< How it ends.
    std::optional<std::string> model_id = std::nullopt; ///< The model it used.
    std::optional<std::string> finish_reason = std::nullopt; ///< Why the model stopped.
    std::optional<Payload> usage = std::nullopt; ///< What it used up.
    std::optional<Payload> trace = std::nullopt; ///< What it did.
    std::optional<Payload> diagnostics = std::nullopt; ///< What it noted about itself.
    /// Why it failed or was cancelled; kept only if it did not succeed.
    std::optional<std::string> error = std::nullopt;
    std::optional<Time> completed_at = std::nullopt; ///< When it ended; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.finish";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("executionToken", execution_token);
        request.set("status", status);
        request.set("modelId", model_id);
        request.set("finishReason", finish_reason);
        request.set("usage", usage);
        request.set("trace", trace);
        request.set("diagnostics", diagnostics);
        request.set("error", error);
        request.set("completedAt", completed_at);
        request.set("answer", answer);
    }
};

/// Cancels a queued or running agent run. No token is asked.
struct CancelAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run.
    std::optional<std::string> error = std::nullopt; ///< Why.
    std::optional<Time> completed_at = std::nullopt; ///< When; the clock's time when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.cancel";
    using Answer = AgentRun;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("error", error);
        request.set("completedAt", completed_at);
        request.set("answer", answer);
    }
};

/// Reads a run.
struct GetRun {
    std::string project_id; ///< The project.
    std::string id; ///< The run's id.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "runs.get";
    using Answer = std::optional<Run>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("answer", answer);
    }
};

/// Reads a node run.
struct GetNode {
    std::string project_id; ///< The project.
    std::string id; ///< The node run's id.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "nodes.get";
    using Answer = std::optional<NodeRun>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("id", id);
        request.set("answer", answer);
    }
};

/// Reads an agent run.
struct GetAgent {
    std::string project_id; ///< The project.
    std::string node_run_id; ///< The node run that it executes.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the record to answer.

    static constexpr const char* op = "agents.get";
    using Answer = std::optional<AgentRun>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("nodeRunId", node_run_id);
        request.set("answer", answer);
    }
};

/// Lists runs by (startedAt, id), the newest first unless the caller says.
struct ListRuns {
    std::string project_id; ///< The project.
    std::optional<std::string> workflow_id = std::nullopt; ///< Only runs of this workflow.
    std::optional<std::vector<std::string>> workflow_ids = std::nullopt; ///< Only runs of these workflows.
    std::optional<std::vector<Status>> statuses = std::nullopt; ///< Only runs in these statuses.
    std::optional<Time> started_after = std::nullopt; ///< Only runs started at or after this time.
    std::optional<Time> started_before = std::nullopt; ///< Only runs started at or before this time.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.
    std::optional<Order> order = std::nullopt; ///< The direction.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 0 to 10,000, and 50 when not given.
    /// How many matching rows to pass over; not together with a cursor.
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::string> cursor = std::nullopt; ///< Where an earlier page ended: its next_cursor.
    std::optional<bool> with_total = std::nullopt; ///< Whether to count all matches; it does when not given.

    static constexpr const char* op = "runs.list";
    using Answer = Page<Run>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("workflowId", workflow_id);
        request.set("workflowIds", workflow_ids);
        request.set("statuses", statuses);
        request.set("startedAfter", started_after);
        request.set("startedBefore", started_before);
        request.set("answer", answer);
        request.set("order", order);
        request.set("limit", limit);
        request.set("offset", offset);
        request.set("cursor", cursor);
        request.set("withTotal", with_total);
    }
};

/// Lists node runs by (startedAt, nodeIndex, id), the newest first unless the caller says. The nodes of one run come
/// in order from an index; a list across a whole project reads all its node runs.
struct ListNodes {
    std::string project_id; ///< The project.
    std::optional<std::string> workflow_run_id = std::nullopt; ///< Only steps of this run.
    std::optional<std::string> workflow_id = std::nullopt; ///< Only steps of runs of this workflow.
    std::optional<std::string> node_type = std::nullopt; ///< Only steps of this type.
    std::optional<std::string> node_id = std::nullopt; ///< Only steps with this id in their workflow.
    std::optional<std::string> node_key = std::nullopt; ///< Only steps with this key in their workflow.
    std::optional<std::vector<Status>> statuses = std::nullopt; ///< Only steps in these statuses.
    std::optional<Time> started_after = std::nullopt; ///< Only steps started at or after this time.
    std::optional<Time> started_before = std::nullopt; ///< Only steps started at or before this time.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.
    std::optional<Order> order = std::nullopt; ///< The direction.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 0 to 10,000, and 50 when not given.
    /// How many matching rows to pass over; not together with a cursor.
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::string> cursor = std::nullopt; ///< Where an earlier page ended: its next_cursor.
    std::optional<bool> with_total = std::nullopt; ///< Whether to count all matches; it does when not given.

    static constexpr const char* op = "nodes.list";
    using Answer = Page<NodeRun>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("workflowRunId", workflow_run_id);
        request.set("workflowId", workflow_id);
        request.set("nodeType", node_type);
        request.set("nodeId", node_id);
        request.set("nodeKey", node_key);
        request.set("statuses", statuses);
        request.set("startedAfter", started_after);
        request.set("startedBefore", started_before);
        request.set("answer", answer);
        request.set("order", order);
        request.set("limit", limit);
        request.set("offset", offset);
        request.set("cursor", cursor);
        request.set("withTotal", with_total);
    }
};

/// Lists agent runs by (createdAt, nodeRunId), the newest first unless the caller says.
struct ListAgents {
    std::string project_id; ///< The project.
    std::optional<std::string> agent_id = std::nullopt; ///< Only runs of this agent.
    std::optional<std::vector<Status>> statuses = std::nullopt; ///< Only agent runs in these statuses.
    std::optional<Time> created_after = std::nullopt; ///< Only agent runs created at or after this time.
    std::optional<Time> created_before = std::nullopt; ///< Only agent runs created at or before this time.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.
    std::optional<Order> order = std::nullopt; ///< The direction.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 0 to 10,000, and 50 when not given.
    /// How many matching rows to pass over; not together with a cursor.
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::string> cursor = std::nullopt; ///< Where an earlier page ended: its next_cursor.
    std::optional<bool> with_total = std::nullopt; ///< Whether to count all matches; it does when not given.

    static constexpr const char* op = "agents.list";
    using Answer = Page<AgentRun>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("agentId", agent_id);
        request.set("statuses", statuses);
        request.set("createdAfter", created_after);
        request.set("createdBefore", created_before);
        request.set("answer", answer);
        request.set("order", order);
        request.set("limit", limit);
        request.set("offset", offset);
        request.set("cursor", cursor);
        request.set("withTotal", with_total);
    }
};

/// The run with the greatest (startedAt, id) of each workflow, in the order first asked.
struct LatestRuns {
    std::string project_id; ///< The project.
    std::vector<std::string> workflow_ids; ///< The workflows; repeats count once.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.

    static constexpr const char* op = "runs.latest";
    using Answer = std::vector<Run>;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("workflowIds", workflow_ids);
        request.set("answer", answer);
    }
};

/// Running runs whose lease ended, by (lease end, projectId, id).
struct ExpiredRuns {
    Time expired_by; ///< Leases that end at or before this time.
    std::optional<std::string> project_id = std::nullopt; ///< Only runs of this project; of all when not given.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 1 to 10,000, and 1,000 when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.

    static constexpr const char* op = "runs.expired";
    using Answer = Expired<Run>;
    void fill(detail::Request& request) const {
        request.set("expiredBy", expired_by);
        request.set("projectId", project_id);
        request.set("limit", limit);
        request.set("answer", answer);
    }
};

/// Running agent runs whose lease ended, by (lease end, projectId, nodeRunId).
struct ExpiredAgents {
    Time expired_by; ///< Leases that end at or before this time.
    std::optional<std::string> project_id = std::nullopt; ///< Only agent runs of this project; of all when not given.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 1 to 10,000, and 1,000 when not given.
    std::optional<AnswerForm> answer = std::nullopt; ///< How much of the records to answer.

    static constexpr const char* op = "agents.expired";
    using Answer = Expired<AgentRun>;
    void fill(detail::Request& request) const {
        request.set("expiredBy", expired_by);
        request.set("projectId", project_id);
        request.set("limit", limit);
        request.set("answer", answer);
    }
};

/// How many runs there are, by status and by workflow.
struct GetRunStats {
    std::string project_id; ///< The project.
    std::optional<std::vector<std::string>> workflow_ids = std::nullopt; ///< Only runs of these workflows.

    static constexpr const char* op = "runs.stats";
    using Answer = RunStats;
    void fill(detail::Request& request) const {
        request.set("projectId", project_id);
        request.set("workflowIds", workflow_ids);
    }
};

/// Every project that has a run, in byte order.
struct ListProjects {
    std::optional<Order> order = std::nullopt; ///< The direction.
    std::optional<std::uint32_t> limit = std::nullopt; ///< The most rows: 0 to 10,000, and 50 when not given.
    /// How many matching rows to pass over; not together with a cursor.
    std::optional<std::uint64_t> offset = std::nullopt;
    std::optional<std::string> cursor = std::nullopt; ///< Where an earlier page ended: its next_cursor.
    std::optional<bool> with_total = std::nullopt; ///< Whether to count all matches; it does when not given.

    static constexpr const char* op = "projects.list";
    using Answer = Page<ProjectSummary>;
    void fill(detail::Request& request) const {
        request.set("order", order);
        request.set("limit", limit);
        request.set("offset", offset);
        request.set("cursor", cursor);
        request.set("withTotal", with_total);
    }
};

/// What the store is and how it was opened.
struct GetStoreInfo {

    static constexpr const char* op = "store.info";
    using Answer = StoreInfo;
    void fill(detail::Request&) const {}
};

/// Holds indexes, counters, checksums and references against the records. It never repairs.
struct VerifyStore {

    static constexpr const char* op = "store.verify";
    using Answer = VerifyReport;
    void fill(detail::Request&) const {}
};

/// Gives unused space back to the system.
struct CompactStore {

    static constexpr const char* op = "store.compact";
    using Answer = CompactReport;
    void fill(detail::Request&) const {}
};

/// Commands that all take effect in one step, or none.
class Batch {
public:
    Batch() : request_("batch") {}

    template <class Operation> Batch& add(const Operation& operation) {
        detail::Request command(Operation::op);
        operation.fill(command);
        runledger_request_add_command(request_.get(), command.get());
        return *this;
    }

private:
    friend class Ledger;
    detail::Request request_;
};

/// The answers of a batch's commands, in their order.
class BatchAnswers {
public:
    explicit BatchAnswers(detail::Doc doc) : doc_(std::move(doc)) {}

    std::size_t size() const { return results().size(); }
    /// The answer at a place, as what the command there answers: at<Run>(0).
    template <class T> T at(std::size_t index) const {
        T answer{};
        results().get(std::to_string(index).c_str(), answer);
        return answer;
    }
    /// All answers, as JSON text.
    std::string json() const { return doc_.json(); }

private:
    detail::Reader results() const { return detail::Reader(doc_, "/results"); }
    detail::Doc doc_;
};

/// How a store is opened; what is not given has the contract's default.
struct OpenOptions {
    std::optional<std::string> durability = std::nullopt;        ///< "full" or "relaxed".
    std::optional<std::string> mode = std::nullopt;              ///< "create", "existing" or "read_only".
    std::optional<std::uint64_t> busy_timeout_ms = std::nullopt;   ///< How long a call waits for the store's lock.
    std::optional<std::uint64_t> max_payload_bytes = std::nullopt; ///< The limit of one payload or text.
    std::optional<std::string> journal = std::nullopt;           ///< Of SQLite: "wal" or "delete".
    std::optional<bool> allow_shared_file = std::nullopt;        ///< See SQLITE FILES in runledger.h.

    std::string json() const {
        std::string json = "{";
        const auto add = [&json](const char* name, const std::string& value) {
            if (json.size() > 1) json += ',';
            json += detail::quoted(name) + ":" + value;
        };
        if (durability) add("durability", detail::quoted(*durability));
        if (mode) add("mode", detail::quoted(*mode));
        if (busy_timeout_ms) add("busy_timeout_ms", std::to_string(*busy_timeout_ms));
        if (max_payload_bytes) add("max_payload_bytes", std::to_string(*max_payload_bytes));
        if (journal) add("journal", detail::quoted(*journal));
        if (allow_shared_file) add("allow_shared_file", *allow_shared_file ? "true" : "false");
        return json + "}";
    }
};

/// Told how far a long call has come; answers whether it is to go on.
using Progress = std::function<bool(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

namespace detail {

/// A long call with its callbacks. What they throw is kept until the call has come back.
template <class Stream> struct Moving {
    Stream* stream;
    const Progress* progress;
    std::exception_ptr thrown;

    template <class Step> std::int32_t guarded(Step step) noexcept {
        try {
            return step() ? 0 : 1;
        } catch (...) {
            thrown = std::current_exception();
            return 1;
        }
    }

    static std::int32_t write(void* user, const std::uint8_t* bytes, std::size_t len) noexcept {
        auto& moving = *static_cast<Moving*>(user);
        return moving.guarded([&] {
            const char* text = reinterpret_cast<const char*>(bytes);
            return static_cast<bool>(moving.stream->write(text, static_cast<std::streamsize>(len)));
        });
    }

    static std::int32_t read(void* user, std::uint8_t* buffer, std::size_t capacity, std::size_t* len) noexcept {
        auto& moving = *static_cast<Moving*>(user);
        return moving.guarded([&] {
            const auto most = static_cast<std::size_t>(std::numeric_limits<std::streamsize>::max());
            const auto wanted = static_cast<std::streamsize>(capacity < most ? capacity : most);
            moving.stream->read(reinterpret_cast<char*>(buffer), wanted);
            *len = static_cast<std::size_t>(moving.stream->gcount());
            return !moving.stream->bad();
        });
    }

    static std::int32_t told(void* user, const char* stage, std::uint64_t done, std::uint64_t total) noexcept {
        auto& moving = *static_cast<Moving*>(user);
        return moving.guarded([&] { return !*moving.progress || (*moving.progress)(stage, done, total); });
    }
};

/// A stream of a call that has none.
struct NoStream {
    explicit operator bool() const { return true; }
    NoStream& write(const char*, std::streamsize) { return *this; }
    NoStream& read(char*, std::streamsize) { return *this; }
    std::streamsize gcount() const { return 0; }
    bool bad() const { return false; }
};

} // namespace detail

/// An open store of workflow runs.
class Ledger {
public:
    /// Opens the store at an address: "memory:", "sqlite:PATH" or "redb:PATH".
    static Ledger open(const std::string& url, const OpenOptions& options = {}) {
        runledger_store* store = nullptr;
        runledger_error* error = nullptr;
        detail::check(runledger_store_open(url.c_str(), options.json().c_str(), &store, &error), error);
        return Ledger(store);
    }

    /// Waits for the calls under way and closes the store. Destroying the ledger closes it too, but can't report an error.
    void close() const {
        runledger_error* error = nullptr;
        detail::check(runledger_store_close(store_.get(), &error), error);
    }

    /// The handle of the C interface, which stays this ledger's.
    const runledger_store* get() const { return store_.get(); }

    /// Carries out an operation of the JSON form and answers JSON text.
    std::string call(const char* op, const std::string& request) const {
        return answer([&](runledger_doc** out, runledger_error** error) {
                   return runledger_call(get(), op, request.data(), request.size(), out, error);
               })
            .json();
    }

    /// Carries out commands in one step: all of them or none.
    BatchAnswers batch(const Batch& batch) const { return BatchAnswers(send(batch.request_)); }

    /// Queues a new run.
    Run queue_run(const QueueRun& operation) const { return carry_out(operation); }
    /// Starts a new run, or one that is queued.
    Run start_run(const StartRun& operation) const { return carry_out(operation); }
    /// Takes the queued run with the smallest (queuedAt, id), if there is one. Two claimers never get the same run.
    std::optional<Run> claim_run(const ClaimRun& operation) const { return carry_out(operation); }
    /// Takes a running run over from its owner.
    Run reclaim_run(const ReclaimRun& operation) const { return carry_out(operation); }
    /// Says that the owner is alive: the lease ends at the later of its current end and the given one.
    Run confirm_run(const ConfirmRun& operation) const { return carry_out(operation); }
    /// Suspends a running run; nobody owns it then.
    Run wait_run(const WaitRun& operation) const { return carry_out(operation); }
    /// Sets a waiting run to work again.
    Run resume_run(const ResumeRun& operation) const { return carry_out(operation); }
    /// Ends a run. What is under it stays as it is; CancelRun cancels that too.
    Run finish_run(const FinishRun& operation) const { return carry_out(operation); }
    /// Cancels a run and, in the same step, every active node run and agent run under it. No token is asked.
    Run cancel_run(const CancelRun& operation) const { return carry_out(operation); }
    /// Deletes an ended run with its node runs and their agent runs.
    Deleted delete_run(const DeleteRun& operation) const { return carry_out(operation); }
    /// Deletes ended runs by (finishedAt, id), with what is under them.
    Purged purge_runs(const PurgeRuns& operation) const { return carry_out(operation); }
    /// Starts a new node run under a running run.
    NodeRun start_node(const StartNode& operation) const { return carry_out(operation); }
    /// Suspends a running node run.
    NodeRun wait_node(const WaitNode& operation) const { return carry_out(operation); }
    /// Ends a running or waiting node run.
    NodeRun finish_node(const FinishNode& operation) const { return carry_out(operation); }
    /// Creates the agent run of a running node run of type agent.
    AgentRun create_agent(const CreateAgent& operation) const { return carry_out(operation); }
    /// Takes the queued agent run with the smallest (createdAt, nodeRunId), if there is one.
    std::optional<AgentRun> claim_agent(const ClaimAgent& operation) const { return carry_out(operation); }
    /// Starts a queued agent run.
    AgentRun start_agent(const StartAgent& operation) const { return carry_out(operation); }
    /// Takes a running agent run over from its owner.
    AgentRun reclaim_agent(const ReclaimAgent& operation) const { return carry_out(operation); }
    /// Says that the agent run's owner is alive: its lease ends at the later of its current end and the given one.
    AgentRun confirm_agent(const ConfirmAgent& operation) const { return carry_out(operation); }
    /// Ends a running agent run. What is not given keeps its value.
    AgentRun finish_agent(const FinishAgent& operation) const { return carry_out(operation); }
    /// Cancels a queued or running agent run. No token is asked.
    AgentRun cancel_agent(const CancelAgent& operation) const { return carry_out(operation); }
    /// Reads a run.
    std::optional<Run> get_run(const GetRun& operation) const { return carry_out(operation); }
    /// Reads a node run.
    std::optional<NodeRun> get_node(const GetNode& operation) const { return carry_out(operation); }
    /// Reads an agent run.
    std::optional<AgentRun> get_agent(const GetAgent& operation) const { return carry_out(operation); }
    /// Lists runs by (startedAt, id), the newest first unless the caller says.
    Page<Run> list_runs(const ListRuns& operation) const { return carry_out(operation); }
    /// Lists node runs by (startedAt, nodeIndex, id), the newest first unless the caller says. The nodes of one run
    /// come in order from an index; a list across a whole project reads all its node runs.
    Page<NodeRun> list_nodes(const ListNodes& operation) const { return carry_out(operation); }
    /// Lists agent runs by (createdAt, nodeRunId), the newest first unless the caller says.
    Page<AgentRun> list_agents(const ListAgents& operation) const { return carry_out(operation); }
    /// The run with the greatest (startedAt, id) of each workflow, in the order first asked.
    std::vector<Run> latest_runs(const LatestRuns& operation) const { return carry_out(operation); }
    /// Running runs whose lease ended, by (lease end, projectId, id).
    Expired<Run> expired_runs(const ExpiredRuns& operation) const { return carry_out(operation); }
    /// Running agent runs whose lease ended, by (lease end, projectId, nodeRunId).
    Expired<AgentRun> expired_agents(const ExpiredAgents& operation) const { return carry_out(operation); }
    /// How many runs there are, by status and by workflow.
    RunStats run_stats(const GetRunStats& operation) const { return carry_out(operation); }
    /// Every project that has a run, in byte order.
    Page<ProjectSummary> list_projects(const ListProjects& operation = {}) const { return carry_out(operation); }
    /// What the store is and how it was opened.
    StoreInfo store_info(const GetStoreInfo& operation = {}) const { return carry_out(operation); }
    /// Holds indexes, counters, checksums and references against the records. It never repairs.
    VerifyReport verify_store(const VerifyStore& operation = {}) const { return carry_out(operation); }
    /// Gives unused space back to the system.
    CompactReport compact_store(const CompactStore& operation = {}) const { return carry_out(operation); }

    /// Renews the lease of a run: it ends at the later of its current end and the given one. The quickest way to say that
    /// its owner is alive.
    Time confirm_run(const std::string& project_id, const std::string& id, const std::string& execution_token,
                     Time lease_expires_at) const {
        return confirm(runledger_confirm_run, project_id, id, execution_token, lease_expires_at);
    }

    /// Renews the lease of an agent run.
    Time confirm_agent(const std::string& project_id, const std::string& node_run_id, const std::string& execution_token,
                       Time lease_expires_at) const {
        return confirm(runledger_confirm_agent, project_id, node_run_id, execution_token, lease_expires_at);
    }

    /// Takes a queued run as claim_run does, and waits for one to be queued: none when none came in time. A close meanwhile
    /// ends it with Code::closed. The lease is the one given, and goes on ending while it waits.
    std::optional<Run> claim_run_wait(const ClaimRun& operation, std::chrono::milliseconds timeout) const {
        return claim_wait(operation, timeout);
    }

    /// Takes a queued agent run, and waits for one as claim_run_wait does.
    std::optional<AgentRun> claim_agent_wait(const ClaimAgent& operation, std::chrono::milliseconds timeout) const {
        return claim_wait(operation, timeout);
    }

    /// Writes all records to a stream: one consistent state, even while writes go on.
    Counts export_to(std::ostream& stream, const Progress& progress = {}) const {
        using Moving = detail::Moving<std::ostream>;
        return move<Counts>(Moving{&stream, &progress, nullptr}, [&](Moving& moving, auto out, auto error) {
            return runledger_export(get(), Moving::write, Moving::told, &moving, out, error);
        });
    }

    /// Adds the records of a stream in one step; those that are there already and equal are skipped.
    Imported import_from(std::istream& stream, const Progress& progress = {}) const {
        using Moving = detail::Moving<std::istream>;
        return move<Imported>(Moving{&stream, &progress, nullptr}, [&](Moving& moving, auto out, auto error) {
            return runledger_import(get(), Moving::read, Moving::told, &moving, out, error);
        });
    }

    /// Adds all records of this store to another one.
    Imported copy_to(const Ledger& target, const Progress& progress = {}) const {
        using Moving = detail::Moving<detail::NoStream>;
        return move<Imported>(Moving{nullptr, &progress, nullptr}, [&](Moving& moving, auto out, auto error) {
            return runledger_copy(get(), target.get(), Moving::told, &moving, out, error);
        });
    }

    /// Copies the store to a new file while others go on reading and writing.
    Backup backup(const std::string& path, const Progress& progress = {}) const {
        using Moving = detail::Moving<detail::NoStream>;
        return move<Backup>(Moving{nullptr, &progress, nullptr}, [&](Moving& moving, auto out, auto error) {
            return runledger_backup(get(), path.c_str(), Moving::told, &moving, out, error);
        });
    }

    /// All that the store holds at this moment.
    std::string snapshot() const {
        return answer([&](auto out, auto error) { return runledger_snapshot(get(), out, error); }).json();
    }

    /// Replaces all that the store holds, in one step.
    Imported restore(const std::string& snapshot) const {
        Imported restored;
        detail::take(answer([&](auto out, auto error) {
                         return runledger_restore(get(), snapshot.data(), snapshot.size(), out, error);
                     }),
                     restored);
        return restored;
    }

private:
    explicit Ledger(runledger_store* store) : store_(store, runledger_store_free) {}

    template <class Function> static detail::Doc answer(Function function) {
        runledger_doc* doc = nullptr;
        runledger_error* error = nullptr;
        const std::int32_t status = function(&doc, &error);
        detail::check(status, error);
        return detail::Doc(doc);
    }

    detail::Doc send(const detail::Request& request) const {
        return answer([&](auto out, auto error) { return runledger_call_request(get(), request.get(), out, error); });
    }

    template <class Operation> typename Operation::Answer carry_out(const Operation& operation) const {
        detail::Request request(Operation::op);
        operation.fill(request);
        typename Operation::Answer taken{};
        detail::take(send(request), taken);
        return taken;
    }

    template <class Operation>
    typename Operation::Answer claim_wait(const Operation& operation, std::chrono::milliseconds timeout) const {
        detail::Request request(Operation::op);
        operation.fill(request);
        // A time that has passed is no time.
        const auto ms = static_cast<std::uint64_t>(timeout.count() > 0 ? timeout.count() : 0);
        typename Operation::Answer taken{};
        detail::take(answer([&](auto out, auto error) {
                         return runledger_claim_wait_request(get(), request.get(), ms, out, error);
                     }),
                     taken);
        return taken;
    }

    template <class Function>
    Time confirm(Function function, const std::string& project_id, const std::string& id, const std::string& token,
                 Time lease_end) const {
        std::int64_t end = 0;
        runledger_error* error = nullptr;
        detail::check(function(get(), project_id.c_str(), id.c_str(), token.c_str(), lease_end.time_since_epoch().count(),
                               &end, &error),
                      error);
        return Time(std::chrono::microseconds(end));
    }

    template <class Answer, class Moving, class Function> static Answer move(Moving moving, Function function) {
        runledger_doc* doc = nullptr;
        runledger_error* error = nullptr;
        const std::int32_t status = function(moving, &doc, &error);
        if (moving.thrown) {
            runledger_doc_free(doc);
            runledger_error_free(error);
            std::rethrow_exception(moving.thrown);
        }
        detail::check(status, error);
        Answer taken{};
        detail::take(detail::Doc(doc), taken);
        return taken;
    }

    std::unique_ptr<runledger_store, decltype(&runledger_store_free)> store_;
};

} // namespace runledger

#endif // RUNLEDGER_HPP
