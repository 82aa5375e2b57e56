/*
 * runledger keeps the state of workflow runs: what is queued, running, waiting and done, who owns it, and until when.
 * This header is made from the library's source; do not edit it.
 *
 *     runledger_store *store = NULL;
 *     runledger_doc *run = NULL;
 *     if (runledger_store_open("sqlite:runs.db", NULL, &store, NULL) == RUNLEDGER_OK) {
 *         runledger_call(store, "runs.get", "{\"projectId\":\"shop\",\"id\":\"r1\"}", RUNLEDGER_NTS, &run, NULL);
 *         if (!runledger_doc_is_null(run)) puts(runledger_doc_json(run, NULL));
 *         runledger_doc_free(run);
 *         runledger_store_free(store);
 *     }
 *
 * CALLS
 *   runledger_call carries every operation, by name, with a JSON object of its fields; the answer is a JSON value too. Which
 *   operations there are, what they need and what they answer is the same in every language and is written down with the
 *   library. runledger_request_... puts a request together field by field, and runledger_doc_... reads an answer by JSON
 *   Pointer, so that a program needs no JSON library. The two confirm functions, which renew a lease, take no JSON at all.
 *   runledger_claim_wait is for workers: a claim that waits until something is queued.
 *
 * STATUS AND ERRORS
 *   Most functions answer an int32_t: RUNLEDGER_OK (0), or one of the numbers below, which never change. What a function
 *   gives beside it is put where `out` points, which holds NULL (or 0, or false) when it did not succeed.
 *   `err` may be NULL; then no error object is made. Otherwise *err is NULL on success, and on failure an error with a message
 *   for people and the facts as data, which you free. No function ends the process: a defect of the library is answered as
 *   RUNLEDGER_INTERNAL, and the store goes on working. A pointer that must not be NULL and is, and text that is not UTF-8,
 *   are RUNLEDGER_INVALID_INPUT.
 *
 * OWNERSHIP
 *   What a function gives through a pointer to a pointer to one of the four types below is yours: free it with the function of
 *   its type, once. Freeing NULL does nothing. Everything that you hand in is read during the call and stays yours.
 *   runledger_live_objects counts what was not freed yet.
 *   Texts that come out of a doc or an error live until that is freed; docs and errors outlive the store they came from.
 *
 * THREADS
 *   A store: any number of threads at once. A doc, a request, an error: one thread at a time, and any thread.
 *   runledger_store_free must be the last call on a store, when no other is under way; runledger_store_close may be called at
 *   any time, waits for the calls under way, and makes later ones answer RUNLEDGER_CLOSED; so do claims that wait then. To
 *   free a store on which others wait, close it and let them return first.
 *
 * STRINGS
 *   UTF-8. Strings that go in end with NUL where there is no length beside them; where there is one, it may be RUNLEDGER_NTS.
 *   Strings that come out end with NUL and have a length, which is what counts where the text itself may hold NUL.
 *   Times are microseconds since 1970-01-01T00:00:00Z, or RFC 3339 in JSON.
 *
 * CALLBACKS
 *   They run on the thread that made the call, during the call, and must return: no longjmp and no exception may leave them.
 *   They must not call the store that is at work, nor free it. Any answer but 0 stops the call, which is then
 *   RUNLEDGER_INTERRUPTED, and keeps nothing.
 *
 * FORK
 *   A store that was carried over fork() answers RUNLEDGER_CLOSED in the child. Close and free forget it there without
 *   touching the parent's files and locks. Docs and errors stay usable. The child may open stores of its own.
 *   A child that neither execs nor exits shares the lock of an inherited redb file, and keeps it when the parent ends without
 *   having closed the store.
 *   Fork while no other thread is in a call: what other threads held at that moment stays held in the child.
 *
 * SQLITE FILES
 *   The system gives file locks to a process, not to a file handle. When any code of this process closes the file of an open
 *   SQLite store - your own open() and close(), another copy of SQLite, a library that looks into the file - the system drops
 *   the locks of the store too, and another process can then write at the same time: the file is damaged.
 *   So runledger_store_open refuses a file that the process already holds open by other means (RUNLEDGER_INVALID_INPUT, field
 *   "url"; on Linux; the option allow_shared_file turns the check off). It can't see what is opened later, nor ATTACH in
 *   another SQLite. Do not open the file in this process while the store is open. Use runledger_backup and open the copy, or
 *   runledger_export, or look into it from another process.
 *   The shared library keeps its own copy of SQLite to itself; the static one can collide with another SQLite that is linked
 *   into the same program.
 *
 * EVOLUTION
 *   The number in the shared library's name is RUNLEDGER_ABI_VERSION, and grows when a function goes or changes. New
 *   functions, new fields in answers and new names of stages come without that, so pass over fields that you do not know.
 *   Status numbers are never used anew.
 */


#ifndef RUNLEDGER_H
#define RUNLEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A length that says: as far as the first NUL. */
#define RUNLEDGER_NTS ((size_t)-1)

/*
 The version of the ABI, which is the number in the library's SONAME. It grows when a function goes, or changes what it
 takes or means; new functions leave it as it is.
 */
#define RUNLEDGER_ABI_VERSION 1

/*
 A level of the log: something failed that needs an operator.
 */
#define RUNLEDGER_LOG_ERROR 1

/*
 A level of the log: something went wrong and was dealt with.
 */
#define RUNLEDGER_LOG_WARN 2

/*
 A level of the log: something worth knowing happened.
 */
#define RUNLEDGER_LOG_INFO 3

/*
 A level of the log: calls that were refused.
 */
#define RUNLEDGER_LOG_DEBUG 4

/*
 A level of the log: every commit.
 */
#define RUNLEDGER_LOG_TRACE 5

/*
 All went well.
 */
#define RUNLEDGER_OK 0

/*
 The request itself is wrong; details.field names where.
 */
#define RUNLEDGER_INVALID_INPUT 1

/*
 A record that the command needs is not there.
 */
#define RUNLEDGER_NOT_FOUND 2

/*
 The id is taken.
 */
#define RUNLEDGER_ALREADY_EXISTS 3

/*
 A record's status does not allow it; details.status has it.
 */
#define RUNLEDGER_INVALID_TRANSITION 4

/*
 The caller does not own the execution (any more): stop work.
 */
#define RUNLEDGER_STALE_TOKEN 5

/*
 The run belongs to another workflow.
 */
#define RUNLEDGER_WORKFLOW_MISMATCH 6

/*
 The node run is not of type agent.
 */
#define RUNLEDGER_NOT_AGENT_NODE 7

/*
 A guarded reclaim came before the lease ended.
 */
#define RUNLEDGER_LEASE_ACTIVE 8

/*
 An import found another record under the same key.
 */
#define RUNLEDGER_CONFLICT 9

/*
 The store's lock was not had within the busy timeout.
 */
#define RUNLEDGER_BUSY 10

/*
 Another process or handle holds the store open.
 */
#define RUNLEDGER_LOCKED 11

/*
 The store, file or directory can't be written.
 */
#define RUNLEDGER_READ_ONLY 12

/*
 The disk is full; nothing of the command was kept.
 */
#define RUNLEDGER_FULL 13

/*
 The system refused an open, read, write or flush.
 */
#define RUNLEDGER_IO 14

/*
 The content of the file or stream is damaged.
 */
#define RUNLEDGER_CORRUPT 15

/*
 Written by a newer version; left untouched.
 */
#define RUNLEDGER_SCHEMA_TOO_NEW 16

/*
 The file is of another program; left untouched.
 */
#define RUNLEDGER_NOT_A_LEDGER 17

/*
 This build or backend lacks it.
 */
#define RUNLEDGER_UNSUPPORTED 18

/*
 The handle was closed, or was carried over a fork.
 */
#define RUNLEDGER_CLOSED 19

/*
 The database server can't be reached or dropped the connection.
 */
#define RUNLEDGER_UNAVAILABLE 20

/*
 A defect in this library (a caught panic); other calls still work.
 */
#define RUNLEDGER_INTERNAL 21

/*
 A payload, text or request is over the limit.
 */
#define RUNLEDGER_TOO_LARGE 22

/*
 The caller stopped it; nothing was kept.
 */
#define RUNLEDGER_INTERRUPTED 23

/*
 The first number of the version of this header.
 */
#define RUNLEDGER_VERSION_MAJOR 0

/*
 The second number of the version of this header.
 */
#define RUNLEDGER_VERSION_MINOR 1

/*
 The third number of the version of this header.
 */
#define RUNLEDGER_VERSION_PATCH 0

/*
 The version of this header as one number that can be compared: major * 1000000 + minor * 1000 + patch.
 */
#define RUNLEDGER_VERSION_NUMBER 1000

/*
 The answer of a call: a JSON value that is read by JSON Pointer, so that a program needs no JSON library.
 */
typedef struct runledger_doc runledger_doc;

/*
 What went wrong: a code, a message for people, and the same facts as data.
 */
typedef struct runledger_error runledger_error;

/*
 A request that is put together field by field. The first field that is refused is remembered, and answered by
 runledger_call_request, so that a program need not look at every single setting.
 */
typedef struct runledger_request runledger_request;

/*
 An open store. Any number of threads may use it at once.
 */
typedef struct runledger_store runledger_store;

/*
 Takes one event of the log. It may be called from any thread that makes a call, must not call the library, and must be
 quick: the call waits for it. The message is only there during the call.
 */
typedef void (*runledger_log_fn)(void *user, int32_t level, const char *message, size_t len);

/*
 Takes the next `len` bytes of a stream. Answers 0 to go on, anything else to stop.
 */
typedef int32_t (*runledger_write_fn)(void *user, const uint8_t *bytes, size_t len);

/*
 Told how far a long call has come: at the beginning and the end of each stage, and now and then between. `stage` is
 "reading" (counted in bytes), "exporting", "checking", "storing" (in records) or "copying" (in pages or rows of the
 engine); `total` is 0 where it is not known. Answers 0 to go on, anything else to stop.
 */
typedef int32_t (*runledger_progress_fn)(void *user, const char *stage, uint64_t done, uint64_t total);

/*
 Puts up to `capacity` bytes of a stream into `buffer`, and says in `len` how many; none is the end. Answers 0 to go on,
 anything else to stop.
 */
typedef int32_t (*runledger_read_fn)(void *user, uint8_t *buffer, size_t capacity, size_t *len);

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 The whole answer as JSON text. It lives until the doc is freed; for NULL it is "null". `len` may be NULL.
 */
const char *runledger_doc_json(const runledger_doc *doc, size_t *len);

/*
 Whether the answer is null: there is no such record, or nothing to claim. True for NULL.
 */
bool runledger_doc_is_null(const runledger_doc *doc);

/*
 Reads the string at a JSON Pointer, such as "/runs/0/id": its value, without quotes and escapes. It may hold NUL, so `len`
 (which may be NULL) is what counts. It lives until the doc is freed.

 Answers 0, not_found when there is no such value, or invalid_input when it is no string; the same holds for every other
 function that reads.
 */
int32_t runledger_doc_str(const runledger_doc *doc,
                          const char *pointer,
                          const char **out,
                          size_t *len);

/*
 Reads the value at a JSON Pointer as JSON text, byte for byte as it was given. It lives until the doc is freed.
 */
int32_t runledger_doc_raw(const runledger_doc *doc, const char *pointer, const char **out, size_t *len);

/*
 Reads the integer at a JSON Pointer.
 */
int32_t runledger_doc_i64(const runledger_doc *doc, const char *pointer, int64_t *out);

/*
 Reads the truth value at a JSON Pointer.
 */
int32_t runledger_doc_bool(const runledger_doc *doc, const char *pointer, bool *out);

/*
 Reads the time at a JSON Pointer, in microseconds since 1970-01-01T00:00:00Z.
 */
int32_t runledger_doc_time_us(const runledger_doc *doc, const char *pointer, int64_t *out);

/*
 Reads how many elements the array, or members the object, at a JSON Pointer has.
 */
int32_t runledger_doc_len(const runledger_doc *doc, const char *pointer, size_t *out);

/*
 Frees a doc with all that was read from it; NULL is nothing.
 */
void runledger_doc_free(runledger_doc *doc);

/*
 The code of an error, which is the status that the function answered; 0 for NULL.
 */
int32_t runledger_error_code(const runledger_error *error);

/*
 Whether the same call may succeed when it is made again; false for NULL.
 */
bool runledger_error_retryable(const runledger_error *error);

/*
 What happened, for people. It lives until the error is freed; for NULL it is empty. `len` may be NULL.
 */
const char *runledger_error_message(const runledger_error *error, size_t *len);

/*
 The facts as a JSON object: entity, projectId, id, field, status, size, limit, index, path, applied, each where it
 applies. It lives until the error is freed; for NULL it is "{}". `len` may be NULL.
 */
const char *runledger_error_details(const runledger_error *error, size_t *len);

/*
 Frees an error; NULL is nothing.
 */
void runledger_error_free(runledger_error *error);

/*
 Has events up to `max_level` (RUNLEDGER_LOG_...) handed to `log`, in place of where they went before; a `log` of NULL ends
 it. When this returns the function that was replaced is not called any more, so what its `user` points to can be freed.
 There is one log for the whole process.
 */
int32_t runledger_set_log(runledger_log_fn log,
                          void *user,
                          int32_t max_level,
                          runledger_error **err);

/*
 The answer with every payload replaced by its place in the text of `doc`, as [offset, length] in bytes: a JSON reader that
 is given this reads the records without their payloads, which may be large, and takes those as they are when they are
 wanted. It is a doc of its own, to be freed; for NULL it is NULL.
 */
runledger_doc *runledger_doc_outline(const runledger_doc *doc);

/*
 Begins a request of an operation, such as "runs.queue".
 */
int32_t runledger_request_new(const char *op, runledger_request **out, runledger_error **err);

/*
 Sets a field to a string. `field` is its JSON name, with a dot for one inside of another: "projectId", "execution.token".
 `len` may be RUNLEDGER_NTS; with a length the text may hold NUL. Setting a field again replaces it.

 Answers 0, or what is wrong with the value, which is also remembered; the same holds for every other function that sets.
 */
int32_t runledger_request_set_str(runledger_request *request,
                                  const char *field,
                                  const char *value,
                                  size_t len);

/*
 Sets a field to an integer.
 */
int32_t runledger_request_set_i64(runledger_request *request, const char *field, int64_t value);

/*
 Sets a field to a truth value.
 */
int32_t runledger_request_set_bool(runledger_request *request, const char *field, bool value);

/*
 Sets a field to a time, in microseconds since 1970-01-01T00:00:00Z.
 */
int32_t runledger_request_set_time_us(runledger_request *request, const char *field, int64_t value);

/*
 Sets a field to a JSON value: a payload, which is kept byte for byte, or a list. `len` may be RUNLEDGER_NTS.
 */
int32_t runledger_request_set_json(runledger_request *request, const char *field, const char *value, size_t len);

/*
 Adds a command to a request of the operation "batch", which carries out all of its commands or none, in one step. The
 command stays yours. A field of it that was refused is remembered by the batch too.
 */
int32_t runledger_request_add_command(runledger_request *batch, const runledger_request *command);

/*
 Frees a request; NULL is nothing.
 */
void runledger_request_free(runledger_request *request);

/*
 The name of a status as the JSON form has it, such as "not_found"; "ok" for 0, "unknown" for a number that is none.
 Never NULL, never freed.
 */
const char *runledger_status_name(int32_t status);

/*
 Opens the store at an address: "memory:", "sqlite:PATH" or "redb:PATH", with options after a question mark. In a path,
 %, ? and # are written %25, %3F and %23.

 `options_json` is NULL, or a JSON object with options by name: durability, mode, busy_timeout_ms, max_payload_bytes,
 journal, allow_shared_file. What the address gives goes before the same option here.
 */
int32_t runledger_store_open(const char *url, const char *options_json, runledger_store **out, runledger_error **err);

/*
 Waits for the calls that are under way, flushes, closes the engine and gives up its locks. Later calls answer closed; a
 second close is ok. In a process that inherited the store over a fork it does nothing, and is ok.
 */
int32_t runledger_store_close(const runledger_store *store, runledger_error **err);

/*
 Frees a store, which is closed first if it is still open; NULL is nothing. It must be the last call on the store, and no
 other may be under way. In a process that inherited the store over a fork the engine is forgotten, not closed.
 */
void runledger_store_free(runledger_store *store);

/*
 Carries out one operation of the contract. `op` is its name, such as "runs.queue", and `request` a JSON object with its
 fields; `len` may be RUNLEDGER_NTS. `op` may be NULL when the request has a field "op"; if both name one it must be the
 same.
 */
int32_t runledger_call(const runledger_store *store,
                       const char *op,
                       const char *request,
                       size_t len,
                       runledger_doc **out,
                       runledger_error **err);

/*
 Carries out a request that was put together field by field. The request stays as it is, and can be sent again.
 */
int32_t runledger_call_request(const runledger_store *store,
                               const runledger_request *request,
                               runledger_doc **out,
                               runledger_error **err);

/*
 Claims as runledger_call does, and waits up to `timeout_ms` milliseconds for something to be queued. The doc is null when
 nothing came. `op` is "runs.claim" or "agents.claim", or NULL when the request has it; another one is invalid_input.

 It wakes when something is queued through this store, and looks from time to time for what other processes queue. A close
 meanwhile ends it with closed. The lease is the one in the request, and goes on ending while the call waits.
 */
int32_t runledger_claim_wait(const runledger_store *store,
                             const char *op,
                             const char *request,
                             size_t len,
                             uint64_t timeout_ms,
                             runledger_doc **out,
                             runledger_error **err);

/*
 As runledger_claim_wait, for a request that was put together field by field.
 */
int32_t runledger_claim_wait_request(const runledger_store *store,
                                     const runledger_request *request,
                                     uint64_t timeout_ms,
                                     runledger_doc **out,
                                     runledger_error **err);

/*
 Says that the owner of a run is alive (runs.confirm): its lease ends at the later of its current end and `lease_end_us`,
 in microseconds since 1970-01-01T00:00:00Z. `new_lease_end_us` (which may be NULL) is given where it ends now. This is the
 call that is made most often, so it takes no JSON.
 */
int32_t runledger_confirm_run(const runledger_store *store,
                              const char *project_id,
                              const char *id,
                              const char *execution_token,
                              int64_t lease_end_us,
                              int64_t *new_lease_end_us,
                              runledger_error **err);

/*
 Says that the owner of an agent run is alive (agents.confirm), as runledger_confirm_run does of a run.
 */
int32_t runledger_confirm_agent(const runledger_store *store,
                                const char *project_id,
                                const char *node_run_id,
                                const char *execution_token,
                                int64_t lease_end_us,
                                int64_t *new_lease_end_us,
                                runledger_error **err);

/*
 Writes all records as one stream of JSON lines to `write`: one consistent state, even while writes go on. `progress` may
 be NULL; both callbacks are given `user`. The answer has runs, nodes and agents; interrupted when a callback stopped it.
 */
int32_t runledger_export(const runledger_store *store,
                         runledger_write_fn write,
                         runledger_progress_fn progress,
                         void *user,
                         runledger_doc **out,
                         runledger_error **err);

/*
 Adds the records of a stream from `read` in one step; those that are there already and equal are skipped. `progress` may be
 NULL; both callbacks are given `user`. The answer has runs, nodes, agents and skipped; interrupted when a callback stopped
 it, and nothing is kept then.
 */
int32_t runledger_import(const runledger_store *store,
                         runledger_read_fn read,
                         runledger_progress_fn progress,
                         void *user,
                         runledger_doc **out,
                         runledger_error **err);

/*
 Adds all records of one store to another, as an export and an import do.
 */
int32_t runledger_copy(const runledger_store *from,
                       const runledger_store *to,
                       runledger_progress_fn progress,
                       void *user,
                       runledger_doc **out,
                       runledger_error **err);

/*
 Copies the store to a new file at `path`, from one consistent state, while others go on reading and writing. A store in a
 file becomes a store of the same backend; one in memory becomes a stream that can be imported. The file appears only when
 it is whole. The answer has form ("store" or "stream") and sizeBytes. It is the way to hand a SQLite store's content to
 another SQLite in this process.
 */
int32_t runledger_backup(const runledger_store *store,
                         const char *path,
                         runledger_progress_fn progress,
                         void *user,
                         runledger_doc **out,
                         runledger_error **err);

/*
 Takes all that the store holds at this moment. The text of the answer (runledger_doc_json) is what runledger_restore takes.
 */
int32_t runledger_snapshot(const runledger_store *store,
                           runledger_doc **out,
                           runledger_error **err);

/*
 Replaces all that the store holds, in one step, with what a snapshot or an export holds: `len` bytes, or RUNLEDGER_NTS.
 The answer has runs, nodes,
 agents and skipped.
 */
int32_t runledger_restore(const runledger_store *store,
                          const char *snapshot,
                          size_t len,
                          runledger_doc **out,
                          runledger_error **err);

/*
 The version of the library that is loaded, such as "0.1.0". Never NULL, never freed.
 */
const char *runledger_version(void);

/*
 The version of the library that is loaded as a number, to compare with RUNLEDGER_VERSION_NUMBER.
 */
uint32_t runledger_version_number(void);

/*
 The version of the ABI of the library that is loaded. A program that loads it at run time refuses one that differs from
 its RUNLEDGER_ABI_VERSION; one that is linked against it need not ask, since the SONAME does.
 */
uint32_t runledger_abi_version(void);

/*
 How the library that is loaded was built, as a JSON object: version, backends, target, profile. Never NULL, never freed.
 */
const char *runledger_build_info(void);

/*
 How many stores, docs, requests and errors there are that were not freed yet. A program that frees all it was given sees 0
 at its end.
 */
int64_t runledger_live_objects(void);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RUNLEDGER_H */
