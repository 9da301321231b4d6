// Wraps oneDNN primitives. They are created when a program is compiled and run on one thread each, because our thread
// pool divides the work. The caller provides scratch memory. Memory objects are created once and get other addresses
// for each call. Private to sdk/engine/kernels.
#ifndef BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_OP_H_
#define BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_OP_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "oneapi/dnnl/dnnl.h"
#include "sdk/engine/kernels/element_type.h"

namespace backplane::engine {

dnnl_engine_t OneDnnEngine();

// Returns Unimplemented if oneDNN does not have the type.
absl::StatusOr<dnnl_data_type_t> OneDnnType(ElementType type);

absl::Status OneDnnStatus(dnnl_status_t status, const char* what);

// While such an object exists, oneDNN uses only the calling thread. The destructor restores the OpenMP setting of the
// thread. Required around the creation and the execution of a primitive, on each thread.
class OneDnnSingleThread {
 public:
  OneDnnSingleThread();
  ~OneDnnSingleThread();
  OneDnnSingleThread(const OneDnnSingleThread&) = delete;
  OneDnnSingleThread& operator=(const OneDnnSingleThread&) = delete;

 private:
  int before_;
};

// Owns a memory descriptor.
class OneDnnDesc {
 public:
  OneDnnDesc() = default;
  explicit OneDnnDesc(dnnl_memory_desc_t desc) : desc_(desc) {}
  OneDnnDesc(const OneDnnDesc& other);
  OneDnnDesc(OneDnnDesc&& other) noexcept : desc_(std::exchange(other.desc_, nullptr)) {}
  OneDnnDesc& operator=(OneDnnDesc other) noexcept {
    std::swap(desc_, other.desc_);
    return *this;
  }
  ~OneDnnDesc();

  static absl::StatusOr<OneDnnDesc> Strided(const std::vector<int64_t>& dims, dnnl_data_type_t type,
                                            const std::vector<int64_t>& strides);
  // Lets the primitive choose the layout.
  static absl::StatusOr<OneDnnDesc> Any(const std::vector<int64_t>& dims, dnnl_data_type_t type);

  dnnl_memory_desc_t get() const { return desc_; }
  size_t bytes() const { return dnnl_memory_desc_get_size(desc_); }
  bool operator==(const OneDnnDesc& other) const { return dnnl_memory_desc_equal(desc_, other.desc_) != 0; }

 private:
  dnnl_memory_desc_t desc_ = nullptr;
};

// Owns a primitive descriptor, from which a primitive is created.
class OneDnnPrimitiveDesc {
 public:
  explicit OneDnnPrimitiveDesc(dnnl_primitive_desc_t desc) : desc_(desc) {}
  OneDnnPrimitiveDesc(OneDnnPrimitiveDesc&& other) noexcept : desc_(std::exchange(other.desc_, nullptr)) {}
  OneDnnPrimitiveDesc(const OneDnnPrimitiveDesc&) = delete;
  ~OneDnnPrimitiveDesc() {
    if (desc_ != nullptr) dnnl_primitive_desc_destroy(desc_);
  }
  dnnl_primitive_desc_t get() const { return desc_; }
  // Returns the layout that was chosen for an argument: dnnl_query_src_md, dnnl_query_weights_md, ...
  OneDnnDesc Query(dnnl_query_t what, int index = 0) const;
  // Returns the name of the implementation, such as "brg:avx512_core_bf16" or "ref:any".
  std::string GetImplementation() const;

 private:
  dnnl_primitive_desc_t desc_;
};

// Owns primitive attributes that select a scratchpad provided by the caller.
class OneDnnAttr {
 public:
  OneDnnAttr();
  ~OneDnnAttr();
  OneDnnAttr(const OneDnnAttr&) = delete;
  dnnl_primitive_attr_t get() const { return attr_; }

 private:
  dnnl_primitive_attr_t attr_ = nullptr;
};

// A primitive and the layouts of its arguments, except the scratchpad. Immutable and thread-safe.
class OneDnnOp {
 public:
  static absl::StatusOr<std::shared_ptr<const OneDnnOp>> Make(const OneDnnPrimitiveDesc& desc,
                                                              std::vector<std::pair<int, OneDnnDesc>> arguments);
  static absl::StatusOr<std::shared_ptr<const OneDnnOp>> MakeReorder(const OneDnnDesc& from, const OneDnnDesc& to);
  ~OneDnnOp();

  size_t scratch_bytes() const { return scratch_bytes_; }
  const std::string& implementation() const { return implementation_; }
  int num_arguments() const { return static_cast<int>(arguments_.size()); }

 private:
  friend class OneDnnRunner;
  OneDnnOp() = default;
  dnnl_primitive_t primitive_ = nullptr;
  std::vector<std::pair<int, OneDnnDesc>> arguments_;
  OneDnnDesc scratchpad_;
  size_t scratch_bytes_ = 0;
  std::string implementation_;
};

// Runs a set of ops from several threads and in several executions at the same time.
class OneDnnRunner {
 public:
  OneDnnRunner(std::vector<std::shared_ptr<const OneDnnOp>> ops, int num_slots);
  ~OneDnnRunner();
  OneDnnRunner(const OneDnnRunner&) = delete;

  // The memory objects of one execution. The runner keeps and reuses them, so only the first execution, and the first
  // of each further concurrent one, allocates.
  class Session {
   public:
    explicit Session(const OneDnnRunner* runner);
    ~Session();
    Session(const Session&) = delete;
    // Runs ops[op]. `pointers` are in the order of its arguments, and `scratch` has at least its scratch_bytes().
    // Threads that run at the same time must use different slots.
    absl::Status Run(int slot, int op, std::initializer_list<const void*> pointers, void* scratch) const;

   private:
    const OneDnnRunner* runner_;
    struct State;
    friend class OneDnnRunner;
    std::unique_ptr<State> state_;
  };

  // Returns the largest scratch size of any op, rounded up to 64 bytes.
  size_t scratch_bytes() const { return scratch_bytes_; }

 private:
  std::vector<std::shared_ptr<const OneDnnOp>> ops_;
  const int num_slots_;
  size_t scratch_bytes_ = 0;
  mutable Mutex mutex_;
  mutable std::vector<std::unique_ptr<Session::State>> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace backplane::engine

#endif  // BACKPLANE_SDK_ENGINE_KERNELS_ONEDNN_OP_H_
