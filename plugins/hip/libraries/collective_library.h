// Libraries of GPU makers for collectives among the devices of one process: RCCL and NCCL. They are opened when a
// client is created, if they are there; nothing is built or linked with them.
//
// The backend compares the results of a library with those of copies between devices before it uses the library
// (plugins/hip/backend/library_collectives.h).
#ifndef BACKPLANE_PLUGINS_HIP_LIBRARIES_COLLECTIVE_LIBRARY_H_
#define BACKPLANE_PLUGINS_HIP_LIBRARIES_COLLECTIVE_LIBRARY_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/types/primitive_type.h"
#include "plugins/hip/runtime/hip_api.h"

namespace backplane::hip {

// A collective on one array of each member, as libraries take it: arrays are contiguous, and blocks are whole.
struct ArrayCollective {
  enum class Kind : uint8_t {
    kAllReduce,
    kReduceScatter,  // the operand has a block for each member
    kAllGather,      // the result has a block for each member
    kAllToAll,       // both have
    kPermute,        // a member gets the operand of its source; the result of a member without one stays as it is
  };
  enum class Reducer : uint8_t { kNone, kSum, kProduct, kMaximum, kMinimum };

  Kind kind{};
  Reducer reducer{};
  PrimitiveType type{};         // kU8 if elements are not combined
  int64_t members = 1;          // numbered from 0
  int64_t count = 0;            // elements of a block
  std::vector<int64_t> source;  // kPermute: by member; -1: none

  int64_t operand_blocks() const { return kind == Kind::kReduceScatter || kind == Kind::kAllToAll ? members : 1; }
  int64_t result_blocks() const { return kind == Kind::kAllGather || kind == Kind::kAllToAll ? members : 1; }
  int64_t block_bytes() const { return count * ByteWidth(type); }
  // Returns the collective in a few words, which differ for collectives that differ.
  std::string ToString() const;
};

// What one member brings to a collective: addresses on its device, and the stream that does its part.
struct CollectivePart {
  hipStream_t stream = nullptr;
  const void* operand = nullptr;
  void* result = nullptr;
};

// The connections between the devices of a list, each of which is one member. Used by one thread at a time, except for
// Abort. All calls may change the current device.
class Communicators {
 public:
  virtual ~Communicators() = default;
  // Enqueues collectives, each on the streams of all members; `parts` has those of the first collective, by member,
  // then those of the next. They run together. A device does its part only while all others do theirs, so the streams
  // must get there. After an error, only Abort may be called.
  virtual absl::Status Enqueue(absl::Span<const ArrayCollective> collectives,
                               absl::Span<const CollectivePart> parts) = 0;
  // Ends the work of all devices, whose results are then undefined, and the connections. Any thread may call it; later
  // calls do nothing.
  virtual void Abort() = 0;
  // Returns an error that the library has noticed while devices were at work. Any thread may call it.
  virtual absl::Status FindError() = 0;
};

// Thread-safe. Held by shared_ptr until the last communicators are gone; the code itself stays loaded.
class CollectiveLibrary {
 public:
  virtual ~CollectiveLibrary() = default;
  virtual const std::string& name() const = 0;  // with the version: "librccl.so.1 (2.22.3)"
  // Whether the library has the type and the reducer.
  virtual bool Supports(const ArrayCollective& collective) const = 0;
  // Connects different devices. It takes up to seconds, and memory of the devices.
  virtual absl::StatusOr<std::unique_ptr<Communicators>> Connect(absl::Span<const int> devices) const = 0;
};

struct OpenedCollectiveLibrary {
  std::shared_ptr<const CollectiveLibrary> library;  // null: there is none
  std::string note;  // a sentence, if the library was opened, or if it is there and cannot be used; else empty
};

// Opens the library for the devices of a runtime: librccl.so.1 (amd), libnccl.so.2 (nvidia), none (emulated). If `name`
// is not empty, it is opened instead. A library that is not there is no error.
OpenedCollectiveLibrary OpenCollectiveLibrary(const HipApi& api, const std::string& name);

}  // namespace backplane::hip

#endif  // BACKPLANE_PLUGINS_HIP_LIBRARIES_COLLECTIVE_LIBRARY_H_
