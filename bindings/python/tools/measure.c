/* What the calls of measure.py cost in C: the same store, the same calls. Prints microseconds per call. */
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

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 10000;
    runledger_store *store = NULL;
    char request[512];
    double begin;
    int64_t lease = 0;

    if (runledger_store_open("memory:", NULL, &store, NULL) != RUNLEDGER_OK) return 1;
    for (int n = 0; n < 60; n++) {
        snprintf(request, sizeof request,
                 "{\"projectId\":\"shop\",\"id\":\"r%d\",\"workflowId\":\"ship\",\"input\":{\"order\":%d,\"lines\":[1,2,3]},"
                 "\"execution\":{\"token\":\"worker-7/claim-1\",\"queueLeaseExpiresAt\":\"2026-01-05T10:00:00Z\"}}", n, n);
        ask(store, "runs.start", request);
    }
    begin = now_us();
    for (int n = 0; n < count; n++)
        if (runledger_confirm_run(store, "shop", "r7", "worker-7/claim-1", 1767607200000000 + n, &lease, NULL) != RUNLEDGER_OK) return 1;
    printf("%f\n", (now_us() - begin) / count);
    begin = now_us();
    for (int n = 0; n < count; n++) ask(store, "runs.get", "{\"projectId\":\"shop\",\"id\":\"r7\"}");
    printf("%f\n", (now_us() - begin) / count);
    begin = now_us();
    for (int n = 0; n < count / 20; n++) ask(store, "runs.list", "{\"projectId\":\"shop\",\"limit\":50}");
    printf("%f\n", (now_us() - begin) / (count / 20));
    runledger_store_free(store);
    return runledger_live_objects() == 0 ? 0 : 1;
}
