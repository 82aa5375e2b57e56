// Every operation of the C++ header, once at least.
#include <runledger.hpp>

#include <iostream>
#include <sstream>
#include <stdexcept>

namespace rl = runledger;

#define MUST(holds) \
    do { \
        if (!(holds)) throw std::logic_error("not so: " #holds); \
    } while (0)

template <class Call> rl::Code refused(Call call) {
    try {
        call();
    } catch (const rl::Error& error) {
        MUST(std::string(error.what()).size() > 0 && error.details().front() == '{' && std::string(error.name()) != "unknown");
        return error.code();
    }
    throw std::logic_error("nothing was refused");
}

static rl::Time at(std::int64_t seconds) { return rl::Time(std::chrono::seconds(seconds)); }

static void runs(const rl::Ledger& ledger) {
    rl::QueueRun queue{"shop", "r1", "wf", R"({"a": 1.0, "a":2})"};
    queue.source = "null";
    queue.requested_by_principal = rl::Principal{"user", "ann"};
    queue.queued_at = at(-1);
    const auto queued = ledger.queue_run(queue);
    MUST(queued.status == rl::Status::queued && queued.input->json == R"({"a": 1.0, "a":2})" && queued.source->json == "null");
    MUST(queued.started_at == at(-1) && queued.queued_at == at(-1) && !queued.output && queued.attempt == 0 && !queued.execution);
    MUST(queued.requested_by_principal.type == "user" && queued.requested_by_principal.id == "ann");
    MUST(refused([&] { ledger.queue_run(queue); }) == rl::Code::already_exists);
    MUST(!ledger.claim_run({"other", {"t", at(100)}}));
    MUST(!ledger.claim_run_wait({"other", {"t", at(100)}}, std::chrono::milliseconds(5)));
    MUST(!ledger.claim_run_wait({"other", {"t", at(100)}}, std::chrono::milliseconds(-5)));
    rl::ClaimRun claim{"shop", {"t", at(100)}};
    claim.workflow_ids = std::vector<std::string>{"wf", "\"\\\x01"};
    claim.answer = rl::AnswerForm::state;
    const auto claimed = ledger.claim_run_wait(claim, std::chrono::hours(1));
    MUST(claimed && claimed->execution->token == "t" && claimed->execution->lease_expires_at == at(100) && !claimed->input);
    MUST(ledger.confirm_run("shop", "r1", "t", at(200)) == at(200));
    MUST(ledger.confirm_run(rl::ConfirmRun{"shop", "r1", "t", at(150)}).execution->lease_expires_at == at(200));
    MUST(refused([&] { ledger.confirm_run("shop", "r1", "other", at(1)); }) == rl::Code::stale_token);
    rl::ReclaimRun reclaim{"shop", "r1", {"u", at(300)}};
    reclaim.lease_expired_by = at(199);
    MUST(refused([&] { ledger.reclaim_run(reclaim); }) == rl::Code::lease_active);
    reclaim.lease_expired_by = at(200);
    MUST(ledger.reclaim_run(reclaim).attempt == 2);
    MUST(ledger.expired_runs({at(300)}).rows.size() == 1 && ledger.expired_runs({at(299)}).rows.empty());
    rl::WaitRun wait{"shop", "r1"};
    wait.execution_token = "u";
    MUST(ledger.wait_run(wait).waiting_since.has_value());
    MUST(ledger.resume_run({"shop", "r1"}).status == rl::Status::running);
    rl::FinishRun finish{"shop", "r1", rl::Status::succeeded};
    finish.output = "[]";
    MUST(ledger.finish_run(finish).output->json == "[]");
    ledger.start_run({"shop", "r2", "wf", "1"});
    MUST(ledger.cancel_run({"shop", "r2", std::string("a\0b", 3)}).error == std::string("a\0b", 3));
    ledger.start_run({"shop", "r3", "wf2", "1"});
    const auto missing = ledger.get_run({"shop", "none"});
    MUST(!missing && ledger.get_run({"shop", "r3"})->workflow_id == "wf2");
}

static void lists(const rl::Ledger& ledger) {
    rl::ListRuns list{"shop"};
    list.order = rl::Order::asc;
    list.limit = 1;
    list.statuses = std::vector<rl::Status>{rl::Status::succeeded, rl::Status::cancelled, rl::Status::running};
    std::size_t seen = 0;
    for (;;) {
        const auto page = ledger.list_runs(list);
        seen += page.rows.size();
        MUST(page.total == 3u);
        if (!page.has_more) break;
        list.cursor = page.next_cursor;
    }
    MUST(seen == 3);
    list.cursor = std::nullopt;
    list.with_total = false;
    list.offset = 2;
    MUST(!ledger.list_runs(list).total && ledger.list_runs(list).rows.size() == 1);
    MUST(ledger.latest_runs({"shop", {"wf2", "wf"}}).at(0).id == "r3");
    const auto stats = ledger.run_stats({"shop"});
    MUST(stats.counts.total == 3 && stats.counts.of(rl::Status::running) == 1 && stats.by_workflow.size() == 2);
    MUST(stats.by_workflow.at(1).workflow_id == "wf2" && stats.by_workflow.at(1).counts.total == 1);
    const auto projects = ledger.list_projects();
    MUST(projects.rows.size() == 1 && projects.rows.at(0).runs == 3);
}

static void nodes_and_agents(const rl::Ledger& ledger) {
    ledger.start_node({"shop", "n1", "r3", "wf2", 4294967295u, "agent", "a", "b", "{}"});
    ledger.start_node({"shop", "n2", "r3", "wf2", 1, "task", "c", "d", "{}"});
    MUST(ledger.wait_node({"shop", "n2"}).status == rl::Status::waiting);
    MUST(ledger.finish_node({"shop", "n2", rl::Status::failed, {}, {}, "broken"}).error == "broken");
    MUST(ledger.get_node({"shop", "n1"})->node_index == 4294967295u);
    rl::ListNodes list{"shop"};
    list.workflow_run_id = "r3";
    MUST(ledger.list_nodes(list).rows.size() == 2);
    MUST(refused([&] { ledger.create_agent({"shop", "n2", "bot", "do"}); }) == rl::Code::not_agent_node);
    ledger.create_agent({"shop", "n1", "bot", "do"});
    MUST(ledger.claim_agent_wait({"shop", {"t", at(10)}}, std::chrono::seconds(60))->agent_id == "bot");
    MUST(!ledger.claim_agent({"shop", {"t", at(10)}}));
    MUST(ledger.confirm_agent("shop", "n1", "t", at(20)) == at(20));
    MUST(ledger.confirm_agent(rl::ConfirmAgent{"shop", "n1", "t", at(30)}).attempt == 1);
    MUST(ledger.expired_agents({at(30)}).rows.at(0).node_run_id == "n1");
    MUST(ledger.reclaim_agent({"shop", "n1", {"u", at(40)}}).attempt == 2);
    rl::FinishAgent finish{"shop", "n1", "u", rl::Status::succeeded};
    finish.usage = "{\"tokens\":7}";
    MUST(ledger.finish_agent(finish).usage->json == "{\"tokens\":7}");
    MUST(ledger.list_agents({"shop"}).rows.size() == 1 && ledger.get_agent({"shop", "n1"})->prompt == "do");
    ledger.start_node({"shop", "n3", "r3", "wf2", 2, "agent", "e", "f", "{}"});
    ledger.create_agent({"shop", "n3", "bot", "do"});
    ledger.start_agent({"shop", "n3", {"v", at(50)}});
    MUST(ledger.cancel_agent({"shop", "n3"}).status == rl::Status::cancelled);
}

static void batches(const rl::Ledger& ledger) {
    rl::Batch batch;
    batch.add(rl::QueueRun{"batch", "b1", "wf", "1"}).add(rl::StartRun{"batch", "b1", "wf", "2"}).add(rl::DeleteRun{"shop", "r2"});
    const auto answers = ledger.batch(batch);
    MUST(answers.size() == 3 && answers.at<rl::Run>(1).input->json == "2" && answers.at<rl::Deleted>(2).runs == 1);
    MUST(refused([&] { ledger.batch(batch); }) == rl::Code::already_exists);
    rl::Batch bent;
    bent.add(rl::QueueRun{"batch", "b2", "wf", "not JSON"});
    MUST(refused([&] { ledger.batch(bent); }) == rl::Code::invalid_input);
    MUST(ledger.call("runs.get", R"({"projectId":"batch","id":"b2"})") == "null");
    ledger.finish_run({"batch", "b1", rl::Status::failed});
    MUST(ledger.purge_runs({"batch", rl::now() + std::chrono::hours(1)}).runs == 1);
}

static void transfers(const rl::Ledger& ledger) {
    std::stringstream stream;
    const auto counts = ledger.export_to(stream);
    MUST(counts.runs == 2 && counts.nodes == 3 && counts.agents == 2);
    auto other = rl::Ledger::open("memory:");
    std::size_t told = 0;
    const auto tell = [&told](std::string_view, std::uint64_t, std::uint64_t) { return ++told > 0; };
    MUST(other.import_from(stream, tell).runs == 2 && told > 0);
    MUST(other.snapshot() == ledger.snapshot());
    MUST(ledger.copy_to(other).skipped == 7);
    other.queue_run({"more", "r", "w", "1"});
    MUST(other.restore(ledger.snapshot()).runs == 2 && !other.get_run({"more", "r"}));
    const auto stop = [](std::string_view, std::uint64_t, std::uint64_t) { return false; };
    MUST(refused([&] { ledger.export_to(stream, stop); }) == rl::Code::interrupted);
    // What a callback throws comes out of the call.
    bool came_out = false;
    try {
        ledger.export_to(stream, [](std::string_view, std::uint64_t, std::uint64_t) -> bool { throw std::out_of_range("mine"); });
    } catch (const std::out_of_range&) {
        came_out = true;
    }
    MUST(came_out);
    std::ostringstream full;
    full.setstate(std::ios::badbit);
    MUST(refused([&] { ledger.export_to(full); }) == rl::Code::interrupted);
}

static void stores(rl::Ledger ledger) {
    const auto info = ledger.store_info();
    MUST(info.library_version == runledger_version() && !info.backend.empty() && info.mode == "create");
    const auto report = ledger.verify_store();
    MUST(report.ok && report.checked.runs == 2 && report.problems.empty());
    const auto compacted = ledger.compact_store();
    MUST(compacted.bytes_before > 0 || info.backend == "memory");
    const rl::Ledger moved = std::move(ledger);
    moved.close();
    moved.close();
    MUST(refused([&] { moved.store_info(); }) == rl::Code::closed);
    MUST(refused([&] { moved.claim_run_wait({"shop", {"t", at(1)}}, std::chrono::hours(1)); }) == rl::Code::closed);
    rl::OpenOptions options;
    options.mode = "nonsense";
    MUST(refused([&] { rl::Ledger::open("memory:", options); }) == rl::Code::invalid_input);
    options.mode = "create";
    options.durability = "full";
    options.busy_timeout_ms = 100;
    options.max_payload_bytes = 3;
    options.allow_shared_file = true;
    const auto small = rl::Ledger::open("memory:", options);
    MUST(refused([&] { small.queue_run({"p", "r", "w", "12345"}); }) == rl::Code::too_large);
}

int main(int argc, char** argv) {
    try {
        const std::string url = argc > 1 ? argv[1] : "memory:";
        {
            auto ledger = rl::Ledger::open(url);
            runs(ledger);
            lists(ledger);
            nodes_and_agents(ledger);
            batches(ledger);
            transfers(ledger);
            const auto colon = url.find(':');
            if (url.size() > colon + 1) MUST(ledger.backup(url.substr(colon + 1) + "-backup").form == "store");
            stores(std::move(ledger));
        }
        MUST(runledger_live_objects() == 0);
        return 0;
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
}
