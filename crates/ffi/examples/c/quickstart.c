/* Queues a run, claims it as a worker does, renews its lease, ends it and lists what there is.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs runledger) -o quickstart && ./quickstart sqlite:runs.db
 */
#include <runledger.h>

#include <stdio.h>
#include <time.h>

static int failed(int32_t status, runledger_error **err)
{
    if (status != RUNLEDGER_OK) {
        fprintf(stderr, "%s: %s\n", runledger_status_name(status), runledger_error_message(*err, NULL));
        runledger_error_free(*err);
    }
    return status != RUNLEDGER_OK;
}

int main(int argc, char **argv)
{
    runledger_store *store = NULL;
    runledger_error *err = NULL;
    runledger_doc *doc = NULL;
    if (failed(runledger_store_open(argc > 1 ? argv[1] : "memory:", NULL, &store, &err), &err)) return 1;

    /* A request is JSON ... */
    const char *queue = "{\"projectId\":\"shop\",\"id\":\"run-1\",\"workflowId\":\"ship-order\",\"input\":{\"order\":17}}";
    int bad = failed(runledger_call(store, "runs.queue", queue, RUNLEDGER_NTS, &doc, &err), &err);
    runledger_doc_free(doc);
    doc = NULL;

    /* ... or is put together field by field; what is wrong with a field is answered by the call. */
    const int64_t now_us = (int64_t)time(NULL) * 1000000, lease_us = 30000000;
    runledger_request *claim = NULL;
    bad = bad || failed(runledger_request_new("runs.claim", &claim, &err), &err);
    runledger_request_set_str(claim, "projectId", "shop", RUNLEDGER_NTS);
    runledger_request_set_str(claim, "execution.token", "worker-7/claim-1", RUNLEDGER_NTS);
    runledger_request_set_time_us(claim, "execution.queueLeaseExpiresAt", now_us + lease_us);
    bad = bad || failed(runledger_call_request(store, claim, &doc, &err), &err);
    runledger_request_free(claim);
    if (!bad && !runledger_doc_is_null(doc)) {
        const char *id = NULL;
        if (runledger_doc_str(doc, "/id", &id, NULL) == RUNLEDGER_OK) printf("claimed %s\n", id);
        /* The lease is renewed for as long as the work goes on. */
        bad = failed(runledger_confirm_run(store, "shop", id, "worker-7/claim-1", now_us + 2 * lease_us, NULL, &err), &err);
    }
    runledger_doc_free(doc);
    doc = NULL;

    const char *finish = "{\"projectId\":\"shop\",\"id\":\"run-1\",\"status\":\"succeeded\",\"executionToken\":\"worker-7/claim-1\"}";
    bad = bad || failed(runledger_call(store, "runs.finish", finish, RUNLEDGER_NTS, &doc, &err), &err);
    runledger_doc_free(doc);
    doc = NULL;
    bad = bad || failed(runledger_call(store, "runs.list", "{\"projectId\":\"shop\"}", RUNLEDGER_NTS, &doc, &err), &err);
    if (!bad) printf("%s\n", runledger_doc_json(doc, NULL));
    runledger_doc_free(doc);
    runledger_store_free(store);
    return bad;
}
