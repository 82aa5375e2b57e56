/* Sixteen threads on one store: what each has queued it finds, and every run is claimed once. */
#include <runledger.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define THREADS 16

static runledger_store *store;
static int rounds = 25;

static void must(int holds, const char *what)
{
    if (!holds) {
        fprintf(stderr, "not so: %s\n", what);
        exit(1);
    }
}

static void *work(void *number)
{
    char request[256];
    for (int round = 0; round < rounds; round++) {
        const int id = *(const int *)number * 1000 + round;
        runledger_doc *doc = NULL;
        runledger_error *err = NULL;
        snprintf(request, sizeof request, "{\"projectId\":\"p\",\"id\":\"r%d\",\"workflowId\":\"w\",\"input\":%d}", id, id);
        must(runledger_call(store, "runs.queue", request, RUNLEDGER_NTS, &doc, &err) == RUNLEDGER_OK, "queued");
        runledger_doc_free(doc);
        must(runledger_call(store, "runs.queue", request, RUNLEDGER_NTS, &doc, &err) == RUNLEDGER_ALREADY_EXISTS, "taken");
        must(doc == NULL && runledger_error_code(err) == RUNLEDGER_ALREADY_EXISTS, "an error says so");
        runledger_error_free(err);
        snprintf(request, sizeof request,
                 "{\"projectId\":\"p\",\"execution\":{\"token\":\"t%d\",\"queueLeaseExpiresAt\":\"2030-01-01T00:00:00Z\"}}", id);
        must(runledger_call(store, "runs.claim", request, RUNLEDGER_NTS, &doc, NULL) == RUNLEDGER_OK, "claimed");
        must(!runledger_doc_is_null(doc), "there is one to claim for each that was queued");
        const char *run = NULL;
        must(runledger_doc_str(doc, "/id", &run, NULL) == RUNLEDGER_OK, "it has an id");
        char token[32];
        snprintf(token, sizeof token, "t%d", id);
        int64_t end = 0;
        must(runledger_confirm_run(store, "p", run, token, 1893456000000001, &end, NULL) == RUNLEDGER_OK, "confirmed");
        must(end == 1893456000000001, "the lease ends later");
        runledger_doc_free(doc);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc > 2) rounds = atoi(argv[2]);
    must(runledger_store_open(argc > 1 ? argv[1] : "memory:", NULL, &store, NULL) == RUNLEDGER_OK, "opened");
    pthread_t threads[THREADS];
    int numbers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        numbers[i] = i;
        must(pthread_create(&threads[i], NULL, work, &numbers[i]) == 0, "a thread");
    }
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    runledger_doc *doc = NULL;
    must(runledger_call(store, "runs.stats", "{\"projectId\":\"p\"}", RUNLEDGER_NTS, &doc, NULL) == RUNLEDGER_OK, "counted");
    int64_t running = 0;
    must(runledger_doc_i64(doc, "/byStatus/running", &running) == RUNLEDGER_OK, "a count");
    must(running == (int64_t)THREADS * rounds, "every run was claimed once");
    runledger_doc_free(doc);
    must(runledger_store_close(store, NULL) == RUNLEDGER_OK, "closed");
    runledger_store_free(store);
    must(runledger_live_objects() == 0, "all was freed");
    return 0;
}
