/* The C interface between a plugin and the library that carries its messages between processes.
 *
 * A plugin does not link a communication library. It opens an adapter, a shared library that exports
 * backplane_get_transport, when a host creates a client with several processes (load_transport.h). Backplane has the
 * adapter libbackplane_gloo.so (Gloo over TCP); a vendor may supply its own. The collectives are above this interface,
 * so all transports give the same results.
 *
 * A mesh connects each process with each other one. A transfer moves one block of memory between two processes. The
 * sender and the receiver name it by a slot: transfers with equal slots between the same two processes are matched in
 * the order in which they were started, others in any order. A sender never sends more bytes than the receiver expects;
 * if it sends fewer, the rest of the receiver's memory keeps its value.
 *
 * All functions may be called from any thread. They return a BackplaneTransportCode and, unless that is OK, write a
 * text that ends with a null byte to `error`. They do not throw and do not print.
 */
#ifndef BACKPLANE_SDK_BACKEND_PROCESSES_TRANSPORT_H_
#define BACKPLANE_SDK_BACKEND_PROCESSES_TRANSPORT_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define BACKPLANE_TRANSPORT_VERSION 1
#define BACKPLANE_GET_TRANSPORT "backplane_get_transport"

typedef enum {
  BACKPLANE_TRANSPORT_OK = 0,
  BACKPLANE_TRANSPORT_FAILED = 1,    /* the connection is broken, or the transport cannot do what was asked */
  BACKPLANE_TRANSPORT_TIMED_OUT = 2, /* the time limit was reached */
  BACKPLANE_TRANSPORT_CLOSED = 3     /* shut_down was called */
} BackplaneTransportCode;

typedef struct {
  char* text;
  size_t size; /* of the memory at `text`, at least 1 */
} BackplaneTransportError;

typedef struct BackplaneMesh BackplaneMesh;
typedef struct BackplaneTransfer BackplaneTransfer;

typedef struct {
  int32_t process, num_processes;
  const char* address;   /* the address or host name to listen on; never null */
  int64_t time_limit_ms; /* for the whole call */
  /* The store that all processes share during the call. `get` waits until the value is there. It writes at most
   * `capacity` bytes and stores the size of the value; a larger value is an error. Both return 0 on success. */
  void* store;
  int (*put)(void* store, const char* key, const void* data, size_t size);
  int (*get)(void* store, const char* key, void* data, size_t capacity, size_t* size);
} BackplaneConnectArgs;

typedef struct {
  uint32_t version; /* BACKPLANE_TRANSPORT_VERSION */
  const char* name; /* "gloo" */

  /* Connects all processes. Every process calls it once, at about the same time. */
  int (*connect)(const BackplaneConnectArgs* args, BackplaneMesh** mesh, BackplaneTransportError error);
  /* Start a transfer and return without waiting for it. The memory belongs to the transfer until `wait` has returned.*/
  int (*start_send)(BackplaneMesh* mesh, int32_t peer, uint64_t slot, const void* data, size_t size,
                    BackplaneTransfer** transfer, BackplaneTransportError error);
  int (*start_receive)(BackplaneMesh* mesh, int32_t peer, uint64_t slot, void* data, size_t size,
                       BackplaneTransfer** transfer, BackplaneTransportError error);
  /* Waits until the transfer has ended, and frees it. A negative time limit means none. After TIMED_OUT the mesh is
   * broken. A connection that breaks ends its transfers with FAILED. */
  int (*wait)(BackplaneTransfer* transfer, int64_t time_limit_ms, BackplaneTransportError error);
  /* Closes all connections. Transfers end with CLOSED or FAILED; later ones fail. Does not wait. May be repeated. */
  void (*shut_down)(BackplaneMesh* mesh);
  /* Frees the mesh and the transfers that nobody has waited for. No other call may be in progress. */
  void (*destroy)(BackplaneMesh* mesh);
} BackplaneTransport;

/* Exported under the name BACKPLANE_GET_TRANSPORT. The table lives as long as the library. */
typedef const BackplaneTransport* (*BackplaneGetTransport)(void);

#ifdef __cplusplus
}
#endif

#endif /* BACKPLANE_SDK_BACKEND_PROCESSES_TRANSPORT_H_ */
