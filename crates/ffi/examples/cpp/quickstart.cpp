// Queues a run, claims it as a worker does, runs a step, ends it and lists what there is.
#include <runledger.hpp>

#include <chrono>
#include <iostream>

int main(int argc, char** argv) {
    using namespace std::chrono_literals;
    namespace rl = runledger;
    try {
        auto ledger = rl::Ledger::open(argc > 1 ? argv[1] : "memory:");
        ledger.queue_run({"shop", "run-1", "ship-order", R"({"order": 17})"});

        const std::string token = "worker-7/claim-1";
        const auto run = ledger.claim_run({"shop", {token, rl::now() + 30s}});
        if (!run) return 1;
        std::cout << "claimed " << run->id << ", attempt " << run->attempt << ", input " << run->input->json << '\n';
        ledger.confirm_run("shop", run->id, token, rl::now() + 60s);

        rl::StartNode step{"shop", "node-1", run->id, run->workflow_id, 0, "task", "pack", "pack", "{}"};
        step.execution_token = token;
        ledger.start_node(step);
        ledger.finish_node({"shop", "node-1", rl::Status::succeeded, {}, {}, {}, token});

        rl::FinishRun finish{"shop", run->id, rl::Status::succeeded};
        finish.output = "null";
        try {
            ledger.finish_run(finish);
        } catch (const rl::Error& error) {
            // Without its token the call is fenced off.
            std::cout << error.name() << ": " << error.what() << '\n';
        }
        finish.execution_token = token;
        ledger.finish_run(finish);

        const auto page = ledger.list_runs({"shop"});
        std::cout << *page.total << " run, which " << (page.rows.at(0).status == rl::Status::succeeded ? "succeeded" : "did not succeed")
                  << '\n';
        return 0;
    } catch (const rl::Error& error) {
        std::cerr << error.name() << ": " << error.what() << '\n';
        return 1;
    }
}
