/* What the calls of measure.py cost in C: the same store, the same calls. Prints microseconds per call, of the quickest chunk. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "runledger.h"

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void ask(const runledger_store *store, const char *op, const char *request)
{
    runledger_doc *doc = NULL;
    if (runledger_call(store, op, request, RUNLEDGER_NTS, &doc, NULL) != RUNLEDGER_OK) {
        fprintf(stderr, "%s failed\n", op);
        exit(1);
    }
    runledger_doc_free(doc);
}

static const runledger_store *store_at_work;

static void confirm(int n)
{
    int64_t lease = 0;
    int32_t status =
        runledger_confirm_run(store_at_work, "shop", "r7", "worker-7/claim-1", 1767607200000000 + n, &lease, NULL);
    if (status != RUNLEDGER_OK) exit(1);
}

static void get(int n)
{
    (void)n;
    ask(store_at_work, "runs.get", "{\"projectId\":\"shop\",\"id\":\"r7\"}");
}

static void list(int n)
{
    (void)n;
    ask(store_at_work, "runs.list", "{\"projectId\":\"shop\",\"limit\":50}");
}

static void measure(int chunks, int chunk, void (*call)(int))
{
    double least = 1e300;
    for (int i = 0; i < chunks; i++) {
        double begin = now_us(), took;
        for (int n = 0; n < chunk; n++) call(n);
        took = now_us() - begin;
        if (took < least) least = took;
    }
    printf("%f\n", least / chunk);
}

int main(int argc, char **argv)
{
    int chunks = argc > 1 ? atoi(argv[1]) : 500;
    runledger_store *store = NULL;
    char request[512];

    if (runledger_store_open("memory:", NULL, &store, NULL) != RUNLEDGER_OK) return 1;
    store_at_work = store;
    for (int n = 0; n < 60; n++) {
        snprintf(request, sizeof request,
                 "{\"projectId\":\"shop\",\"id\":\"r%d\",\"workflowId\":\"ship\",\"input\":{\"order\":%d,\"lines\":[1,2,3]},"
                 "\"execution\":{\"token\":\"worker-7/claim-1\",\"queueLeaseExpiresAt\":\"2026-01-05T10:00:00Z\"}}", n, n);
        ask(store, "runs.start", request);
    }
    measure(chunks, 200, confirm);
    measure(chunks, 100, get);
    measure(chunks, 5, list);
    runledger_store_free(store);
    return runledger_live_objects() == 0 ? 0 : 1;
}
