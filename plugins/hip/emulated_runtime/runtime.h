// The state of the emulated runtime: devices, handles and host memory that it knows.
#ifndef BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_RUNTIME_H_
#define BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_RUNTIME_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "plugins/hip/emulated_runtime/device.h"
#include "plugins/hip/emulated_runtime/faults.h"
#include "plugins/hip/emulated_runtime/graph.h"
#include "plugins/hip/emulated_runtime/handles.h"
#include "plugins/hip/emulated_runtime/module.h"
#include "plugins/hip/emulated_runtime/ordering.h"
#include "plugins/hip/emulated_runtime/settings.h"
#include "plugins/hip/emulated_runtime/stream.h"

namespace backplane::hip::emulated {

// Where an address lies.
struct MemoryPlace {
  enum Kind { kPageable, kPinned, kDevice, kGlobal } kind = kPageable;
  Device* device = nullptr;  // of kDevice and kGlobal
};

// Thread-safe.
class Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<Runtime>> Create(Settings settings);
  ~Runtime();

  // Returns the runtime of the process, which the first call makes; null if the settings are wrong or there is no
  // memory for it, which is reported.
  static Runtime* Get();
  // Returns the runtime of the process, or null if there is none now.
  static Runtime* GetExisting();
  // Stops all streams and ends the runtime. The next Get makes a new one. No other call may be under way.
  static void Shutdown();

  const Settings& settings() const { return settings_; }
  OrderTracker& order() { return order_; }
  FaultTable& faults() { return faults_; }
  int device_count() const { return static_cast<int>(devices_.size()); }
  // Returns null if there is no such device.
  Device* device(int ordinal) const;

  HandleTable<hipStream_t, Stream>& streams() { return streams_; }
  HandleTable<hipEvent_t, Event>& events() { return events_; }
  HandleTable<hipModule_t, Module>& modules() { return modules_; }
  HandleTable<hipFunction_t, Function>& functions() { return functions_; }
  HandleTable<hipGraph_t, Graph>& graphs() { return graphs_; }
  HandleTable<hipGraphNode_t, GraphNode>& nodes() { return nodes_; }
  HandleTable<hipGraphExec_t, GraphExecutable>& executables() { return executables_; }

  // Enqueues work, with the waits that the rule of the null stream demands.
  StreamPosition Submit(const std::shared_ptr<Stream>& stream, Work work, std::vector<StreamPosition> after = {});

  MemoryPlace Locate(uint64_t address) const;
  // Checks that `by` may access the memory as device memory now: its own, that of peers, or pinned host memory.
  // Otherwise the reason is reported, with `what` before it.
  hipError_t CheckAccessible(Device& by, uint64_t address, uint64_t bytes, absl::string_view what) const;

  // Adds pinned host memory. Returns false if the range overlaps one that is registered.
  bool AddPinned(uint64_t address, uint64_t bytes, bool is_owned);
  // Removes the range that begins at `address`, whose ownership passes to the caller. Returns its bytes; 0 if there is
  // none.
  uint64_t RemovePinned(uint64_t address, bool is_owned);
  bool IsPinned(uint64_t address, uint64_t bytes) const;

  // Counts captures in modes that forbid unsafe calls to other threads. See capture.h.
  Captures& captures() { return captures_; }

  // Describes what was allocated and not freed, in lines.
  std::string DescribeLeaks() const;

 private:
  explicit Runtime(Settings settings) : settings_(std::move(settings)) {}
  struct PinnedRange {
    uint64_t end;
    bool is_owned;  // by hipHostMalloc
  };

  const Settings settings_;
  OrderTracker order_;
  FaultTable faults_;
  Captures captures_;
  std::vector<std::unique_ptr<Device>> devices_;  // constant after Create
  HandleTable<hipStream_t, Stream> streams_{"stream", 0x11};
  HandleTable<hipEvent_t, Event> events_{"event", 0x12};
  HandleTable<hipModule_t, Module> modules_{"module", 0x13};
  HandleTable<hipFunction_t, Function> functions_{"function", 0x14};
  HandleTable<hipGraph_t, Graph> graphs_{"graph", 0x15};
  HandleTable<hipGraphNode_t, GraphNode> nodes_{"graph node", 0x16};
  HandleTable<hipGraphExec_t, GraphExecutable> executables_{"executable graph", 0x17};
  mutable Mutex host_mu_;
  std::map<uint64_t, PinnedRange> pinned_ ABSL_GUARDED_BY(host_mu_);  // by beginning
};

}  // namespace backplane::hip::emulated

#endif  // BACKPLANE_PLUGINS_HIP_EMULATED_RUNTIME_RUNTIME_H_
