// One operation of a recorded session: a call of the host and its result.
//
// Objects (clients, executables, buffers, events) have numbers, which are never reused: an operation `uses` objects
// that earlier operations `make`. 0 is an object that the recording does not know or that the host omitted. Operations
// are in the order in which the calls returned, so an object is created before it is used, and an operation for which a
// blocked call waited precedes it.
#ifndef BACKPLANE_SDK_LAYERS_RECORD_OPERATION_H_
#define BACKPLANE_SDK_LAYERS_RECORD_OPERATION_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "sdk/host/async_transfer.h"
#include "sdk/host/buffer.h"
#include "sdk/host/named_value.h"
#include "sdk/layers/record/sha256.h"

namespace backplane::record {

// These numbers are part of the file format and never change. The comments list what the operation uses; makes; other
// fields.
enum class Kind : uint32_t {
  kClient = 1,         //  -; client; options, name and text: platform and its version, devices, memories
  kClientDestroy = 2,  // client
  kCompile = 3,        // client; executable; text: format, blobs: program, options; name, shapes of outputs, placement
  kCompileAhead = 4,   // -; executable, not loaded; text: format, blobs: program, options; name
  kLoad = 5,           // client, executable; executable; blobs: options
  kSerialize = 6,      // executable; -; blobs: the bytes
  kDeserialize = 7,    // client; executable; blobs: the bytes and, if given, options
  kExecutableDelete = 8,   // executable
  kExecutableDestroy = 9,  // executable
  kFromHost = 10,          // client; buffer, event; type, dims, byte_strides, layout, blobs: data dense and row-major,
                           // device or memory, numbers: host buffer semantics
  kUninitialized = 11,     // client; buffer; type, dims, layout, device or memory
  kErrorBuffer = 12,       // client; buffer; type, dims, layout, memory, numbers: code, text: its message
  kAlias = 13,             // client; buffer, promise; type, dims, layout, memory
  kFulfillAlias = 14,      // promise, buffer; -; numbers: code, text: its message
  kView = 15,  // client; buffer; type, dims, layout, blobs: data row-major, when the host can read it; device, memory
  kTransferStart = 16,     // client; transfer; shapes, layouts, memory
  kTransferData = 17,      // transfer; event; numbers: index, offset, whether it is the last; blobs: data
  kTransferLiteral = 18,   // transfer; event; numbers: index; type, dims, layout, blobs: data row-major
  kTransferRetrieve = 19,  // transfer; buffer; numbers: index
  kTransferError = 20,     // transfer; -; numbers: index, code; text: its message
  kTransferMetadata = 21,  // transfer; -; options
  kTransferDestroy = 22,   // transfer
  kExecute = 23,           // executable, arguments device by device; outputs device by device, events;
                           // numbers: see ExecuteNumber, text: call location, device, non_donatable, donated
  kCopyToDevice = 24,      // buffer; buffer; device
  kCopyToMemory = 25,      // buffer; buffer; memory
  kBitcast = 26,           // buffer; buffer; type, dims, layout
  kDonate = 27,            // buffer; buffer, promise (donation with control dependency)
  kDonationReady = 28,     // promise; -; numbers: code, text: its message
  kDelete = 29,            // buffer
  kDestroy = 30,           // buffer
  kReadyEvent = 31,        // buffer; event
  kRead = 32,              // buffer; event; layout: the host's, numbers: bytes at the destination
  kReadRaw = 33,           // buffer; event; numbers: offset, bytes
  kWait = 34,  // event; -; its status; for the event of a read: type, dims, blobs: what the host read, dense and
               // row-major (bytes as type u8 if the elements are unknown); numbers: how the host learned of it
  kEventDestroy = 35,  // event
  kPointer = 36,       // buffer; -; name: the function by which the host got the address of a buffer's memory
  kCall = 37,          // -; name: another function that ended with an error
  kObstacle = 38,      // -; name: a function that ties the session to its process; obstacle
};
constexpr uint32_t kLastKind = 38;

// The names in lists and JSON, such as "compile" and "from_host".
absl::string_view KindName(Kind kind);

// Indices in Operation::numbers of kExecute.
enum ExecuteNumber { kNumDevices, kNumArguments, kNumOutputs, kNumEvents, kLaunchId, kExecuteNumbers };
// Operation::numbers[0] of kWait.
enum WaitKind { kAwaited, kCalledBack, kPolled };

struct BlobRef {
  Digest digest;
  uint64_t size = 0;  // bytes
  friend bool operator==(const BlobRef& a, const BlobRef& b) { return a.size == b.size && a.digest == b.digest; }
};

struct DeviceFact {
  int64_t id = 0, process = 0, local_hardware_id = -1;
  bool addressable = false;
  std::string kind;
  std::vector<int64_t> memories;  // ids
  int64_t default_memory = -1;
};
struct MemoryFact {
  int64_t id = 0;
  std::string kind;
};

struct Operation {
  Kind kind = Kind::kCall;
  uint64_t number = 0;                    // from 1, in the order of the file; a shortened session keeps the numbers
  uint32_t thread = 0;                    // from 1, in the order of the threads' first calls
  int64_t start_ns = 0, duration_ns = 0;  // of the call, from the beginning of the session
  int code = 0;                           // a PJRT_Error_Code: that of the call, or that of the event of a wait
  std::string message;
  std::vector<uint64_t> uses, makes;
  std::vector<int64_t> numbers;
  std::string name, text;
  PJRT_Buffer_Type type = PJRT_Buffer_Type_INVALID;
  std::vector<int64_t> dims;
  std::vector<int64_t> byte_strides;  // empty: dense, the last dimension fastest
  std::optional<host::BufferLayout> layout;
  std::vector<BlobRef> blobs;
  bool data_left_out = false;  // the session contains only the digests of the blobs
  std::vector<host::NamedValue> options;
  std::vector<host::NamedValue> attributes;  // of a client: the attributes of its plugin
  int64_t device = -1, memory = -1;          // ids in the session; -1: none
  std::vector<host::ArrayShape> shapes;
  std::vector<std::optional<host::BufferLayout>> layouts;
  std::vector<int64_t> placement;               // the ids of the devices on which an executable runs
  std::vector<int64_t> non_donatable, donated;  // indices of arguments; `donated` counts through all devices
  std::vector<DeviceFact> devices;
  std::vector<MemoryFact> memories;
  std::string obstacle;  // why a replay cannot repeat the operation; empty if it can
};

std::string EncodeOperation(const Operation& operation);
// Every length is checked against the available bytes. Fields of later versions are ignored. Returns INVALID_ARGUMENT
// for invalid bytes.
absl::StatusOr<Operation> DecodeOperation(absl::string_view bytes);

// Properties of the session as a whole.
struct SessionInfo {
  std::string plugin;  // path or name
  int64_t api_major = 0, api_minor = 0;
  std::string host;          // name of the program
  int64_t process = 0;       // its id
  int64_t unix_seconds = 0;  // when the session began
  std::string recorder;      // version of Backplane
  std::string made_from;     // how this file was derived from another one; empty for a recording
};
std::string EncodeInfo(const SessionInfo& info);
absl::StatusOr<SessionInfo> DecodeInfo(absl::string_view bytes);

}  // namespace backplane::record

#endif  // BACKPLANE_SDK_LAYERS_RECORD_OPERATION_H_
