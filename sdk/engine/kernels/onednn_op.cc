#include "sdk/engine/kernels/onednn_op.h"

#include <algorithm>
#include <atomic>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "sdk/backend/exceptions.h"
#include "sdk/engine/kernels/onednn_use.h"

// Of the OpenMP standard. <omp.h> comes with each compiler's own runtime, which need not be the one that oneDNN uses.
extern "C" int omp_get_max_threads(void);
extern "C" void omp_set_num_threads(int threads);

namespace backplane::engine {
namespace {

std::atomic<bool> onednn_is_used{false};

}  // namespace

bool HasUseForOneDnn() { return onednn_is_used.load(std::memory_order_relaxed); }

dnnl_engine_t OneDnnEngine() {
  static const dnnl_engine_t engine = [] {
    dnnl_engine_t e = nullptr;
    onednn_is_used.store(true, std::memory_order_relaxed);
    return dnnl_engine_create(&e, dnnl_cpu, 0) == dnnl_success ? e : nullptr;
  }();
  return engine;
}

absl::StatusOr<dnnl_data_type_t> OneDnnType(ElementType type) {
  switch (type) {
    case ElementType::kF32:
      return dnnl_f32;
    case ElementType::kBF16:
      return dnnl_bf16;
    case ElementType::kF16:
      return dnnl_f16;
    case ElementType::kS8:
      return dnnl_s8;
    case ElementType::kU8:
      return dnnl_u8;
    case ElementType::kS32:
      return dnnl_s32;
    default:
      return absl::UnimplementedError(absl::StrCat("element type ", ElementTypeName(type), " is not supported"));
  }
}

absl::Status OneDnnStatus(dnnl_status_t status, const char* what) {
  switch (status) {
    case dnnl_success:
      return absl::OkStatus();
    case dnnl_unimplemented:
      return absl::UnimplementedError(absl::StrCat("onednn has no ", what));
    case dnnl_invalid_arguments:
      return absl::UnimplementedError(absl::StrCat("onednn refuses the arguments of ", what));
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(absl::StrCat("onednn is out of memory: ", what));
    default:
      return absl::InternalError(absl::StrCat("onednn: ", what, " failed with status ", static_cast<int>(status)));
  }
}

OneDnnSingleThread::OneDnnSingleThread() : before_(omp_get_max_threads()) {
  if (before_ != 1) omp_set_num_threads(1);
}
OneDnnSingleThread::~OneDnnSingleThread() {
  if (before_ != 1) omp_set_num_threads(before_);
}

OneDnnDesc::OneDnnDesc(const OneDnnDesc& other) {
  if (other.desc_ != nullptr) dnnl_memory_desc_clone(&desc_, other.desc_);
}
OneDnnDesc::~OneDnnDesc() {
  if (desc_ != nullptr) dnnl_memory_desc_destroy(desc_);
}

absl::StatusOr<OneDnnDesc> OneDnnDesc::Strided(const std::vector<int64_t>& dims, dnnl_data_type_t type,
                                               const std::vector<int64_t>& strides) {
  dnnl_memory_desc_t desc = nullptr;
  absl::Status s = OneDnnStatus(
      dnnl_memory_desc_create_with_strides(&desc, static_cast<int>(dims.size()), dims.data(), type, strides.data()),
      "strided memory");
  if (!s.ok()) return s;
  return OneDnnDesc(desc);
}

absl::StatusOr<OneDnnDesc> OneDnnDesc::Any(const std::vector<int64_t>& dims, dnnl_data_type_t type) {
  dnnl_memory_desc_t desc = nullptr;
  absl::Status s = OneDnnStatus(
      dnnl_memory_desc_create_with_tag(&desc, static_cast<int>(dims.size()), dims.data(), type, dnnl_format_tag_any),
      "memory");
  if (!s.ok()) return s;
  return OneDnnDesc(desc);
}

OneDnnDesc OneDnnPrimitiveDesc::Query(dnnl_query_t what, int index) const {
  const_dnnl_memory_desc_t found = dnnl_primitive_desc_query_md(desc_, what, index);
  dnnl_memory_desc_t copy = nullptr;
  if (found != nullptr) dnnl_memory_desc_clone(&copy, found);
  return OneDnnDesc(copy);
}

std::string OneDnnPrimitiveDesc::GetImplementation() const {
  const char* text = nullptr;
  dnnl_primitive_desc_query(desc_, dnnl_query_impl_info_str, 0, &text);
  return text == nullptr ? "" : text;
}

OneDnnAttr::OneDnnAttr() {
  dnnl_primitive_attr_create(&attr_);
  dnnl_primitive_attr_set_scratchpad_mode(attr_, dnnl_scratchpad_mode_user);
}
OneDnnAttr::~OneDnnAttr() { dnnl_primitive_attr_destroy(attr_); }

absl::StatusOr<std::shared_ptr<const OneDnnOp>> OneDnnOp::Make(const OneDnnPrimitiveDesc& desc,
                                                               std::vector<std::pair<int, OneDnnDesc>> arguments) {
  std::shared_ptr<OneDnnOp> op(new OneDnnOp());
  if (absl::Status s = OneDnnStatus(dnnl_primitive_create(&op->primitive_, desc.get()), "primitive"); !s.ok()) return s;
  op->arguments_ = std::move(arguments);
  op->scratchpad_ = desc.Query(dnnl_query_scratchpad_md);
  op->scratch_bytes_ = op->scratchpad_.get() == nullptr ? 0 : op->scratchpad_.bytes();
  op->implementation_ = desc.GetImplementation();
  return std::shared_ptr<const OneDnnOp>(std::move(op));
}

absl::StatusOr<std::shared_ptr<const OneDnnOp>> OneDnnOp::MakeReorder(const OneDnnDesc& from, const OneDnnDesc& to) {
  OneDnnAttr attr;
  dnnl_primitive_desc_t raw = nullptr;
  absl::Status s = OneDnnStatus(
      dnnl_reorder_primitive_desc_create(&raw, from.get(), OneDnnEngine(), to.get(), OneDnnEngine(), attr.get()),
      "reorder");
  if (!s.ok()) return s;
  OneDnnPrimitiveDesc desc(raw);
  return Make(desc, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

OneDnnOp::~OneDnnOp() {
  if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
}

struct OneDnnRunner::Session::State {
  struct Call {
    std::vector<dnnl_memory_t> memories;  // arguments, then the scratchpad if there is one
    std::vector<dnnl_exec_arg_t> arguments;
  };
  struct Slot {
    dnnl_stream_t stream = nullptr;
    std::vector<Call> calls;  // one for each op
  };
  std::vector<Slot> slots;
  bool is_complete = true;  // false: there was no memory for an object; such a state is not kept

  ~State() {
    for (Slot& slot : slots) {
      for (Call& call : slot.calls) {
        for (dnnl_memory_t m : call.memories) dnnl_memory_destroy(m);
      }
      if (slot.stream != nullptr) dnnl_stream_destroy(slot.stream);
    }
  }
};

OneDnnRunner::OneDnnRunner(std::vector<std::shared_ptr<const OneDnnOp>> ops, int num_slots)
    : ops_(std::move(ops)), num_slots_(std::max(1, num_slots)) {
  for (const auto& op : ops_) scratch_bytes_ = std::max(scratch_bytes_, (op->scratch_bytes() + 63) / 64 * 64);
  Session first(this);  // leaves its memory objects behind for the first execution
}

OneDnnRunner::~OneDnnRunner() = default;

OneDnnRunner::Session::Session(const OneDnnRunner* runner) : runner_(runner) {
  {
    MutexLock lock(runner->mutex_);
    if (!runner->kept_.empty()) {
      state_ = std::move(runner->kept_.back());
      runner->kept_.pop_back();
      return;
    }
  }
  state_ = std::make_unique<State>();
  state_->slots.resize(runner->num_slots_);
  for (State::Slot& slot : state_->slots) {
    if (dnnl_stream_create(&slot.stream, OneDnnEngine(), dnnl_stream_default_flags) != dnnl_success)
      state_->is_complete = false;
    slot.calls.resize(runner->ops_.size());
    for (size_t i = 0; i < runner->ops_.size(); ++i) {
      const OneDnnOp& op = *runner->ops_[i];
      State::Call& call = slot.calls[i];
      auto add = [&](int id, const OneDnnDesc& desc) {
        dnnl_memory_t memory = nullptr;
        if (dnnl_memory_create(&memory, desc.get(), OneDnnEngine(), DNNL_MEMORY_NONE) != dnnl_success) {
          state_->is_complete = false;
          return;
        }
        call.memories.push_back(memory);
        call.arguments.push_back({id, memory});
      };
      call.memories.reserve(op.arguments_.size() + 1);
      for (const auto& [id, desc] : op.arguments_) add(id, desc);
      if (op.scratch_bytes_ > 0) add(DNNL_ARG_SCRATCHPAD, op.scratchpad_);
    }
  }
}

OneDnnRunner::Session::~Session() {
  if (!state_->is_complete) return;
  MutexLock lock(runner_->mutex_);
  (void)CatchExceptions([&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(runner_->mutex_) {
    runner_->kept_.push_back(std::move(state_));  // without memory for a longer list, the state is destroyed
  });
}

absl::Status OneDnnRunner::Session::Run(int slot, int op, std::initializer_list<const void*> pointers,
                                        void* scratch) const {
  State::Slot& s = state_->slots[slot];
  State::Call& call = s.calls[op];
  const OneDnnOp& definition = *runner_->ops_[op];
  const size_t wanted = pointers.size() + (definition.scratch_bytes_ > 0 ? 1 : 0);
  if (!state_->is_complete) return absl::ResourceExhaustedError("onednn: out of memory for its objects");
  if (call.memories.size() != wanted) return absl::InternalError("onednn: memory objects are missing");
  size_t i = 0;
  for (const void* p : pointers) dnnl_memory_set_data_handle(call.memories[i++], const_cast<void*>(p));
  if (definition.scratch_bytes_ > 0) dnnl_memory_set_data_handle(call.memories[i], scratch);
  OneDnnSingleThread single;
  const dnnl_status_t status = dnnl_primitive_execute(definition.primitive_, s.stream,
                                                      static_cast<int>(call.arguments.size()), call.arguments.data());
  return status == dnnl_success ? absl::OkStatus() : OneDnnStatus(status, "execution");
}

}  // namespace backplane::engine
