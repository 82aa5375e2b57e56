/* What a call costs in C on a store in memory: prints a name and nanoseconds per call, a line each. Run by calls.rs. */
#define _POSIX_C_SOURCE 200809L
#include <runledger.h>

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static runledger_store *store;

static void must(int holds)
{
    if (!holds) {
        fprintf(stderr, "a call failed\n");
        exit(1);
    }
}

static void call(const char *op, const char *request)
{
    runledger_doc *doc = NULL;
    must(runledger_call(store, op, request, RUNLEDGER_NTS, &doc, NULL) == RUNLEDGER_OK);
    runledger_doc_free(doc);
}

static void confirm(long n)
{
    int64_t end = 0;
    must(runledger_confirm_run(store, "shop", "owned", "worker-7/claim-1", 1893456000000000 + n, &end, NULL) == RUNLEDGER_OK);
}

static void get(long n)
{
    (void)n;
    call("runs.get", "{\"projectId\":\"shop\",\"id\":\"run-500\"}");
}

static void list(long n)
{
    (void)n;
    call("runs.list", "{\"projectId\":\"shop\",\"limit\":50}");
}

static void measure(const char *name, void (*once)(long), long calls)
{
    struct timespec began, ended;
    for (long n = 0; n < calls / 10; n++) once(n);
    clock_gettime(CLOCK_MONOTONIC, &began);
    for (long n = 0; n < calls; n++) once(calls + n);
    clock_gettime(CLOCK_MONOTONIC, &ended);
    const double ns = (double)(ended.tv_sec - began.tv_sec) * 1e9 + (double)(ended.tv_nsec - began.tv_nsec);
    printf("%s %.0f\n", name, ns / (double)calls);
}

int main(int argc, char **argv)
{
    const long calls = argc > 1 ? atol(argv[1]) : 100000;
    must(runledger_store_open("memory:", NULL, &store, NULL) == RUNLEDGER_OK);
    char request[512];
    for (int n = 0; n < 1000; n++) {
        snprintf(request, sizeof request,
                 "{\"projectId\":\"shop\",\"id\":\"run-%d\",\"workflowId\":\"ship-order\",\"input\":{\"order\":%d,\"note\":\"%0200d\"}}", n, n, n);
        call("runs.queue", request);
    }
    call("runs.start", "{\"projectId\":\"shop\",\"id\":\"owned\",\"workflowId\":\"ship-order\",\"input\":{},"
                       "\"execution\":{\"token\":\"worker-7/claim-1\",\"queueLeaseExpiresAt\":\"2030-01-01T00:00:00Z\"}}");
    measure("confirm", confirm, calls);
    measure("get", get, calls);
    measure("list", list, calls / 50);
    runledger_store_free(store);
    return 0;
}
