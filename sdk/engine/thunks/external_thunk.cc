#include "sdk/engine/thunks/external_thunk.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"
#include "sdk/backend/workers.h"

namespace backplane::engine {
namespace {

absl::Status AddName(const absl::Status& s, absl::string_view name) {
  absl::Status named(s.code(), absl::StrCat(name, ": ", absl::string_view(s.message().data(), s.message().size())));
  s.ForEachPayload([&](absl::string_view key, const absl::Cord& value) { named.SetPayload(key, value); });
  return named;
}

Literal BorrowTree(const Shape& shape, const std::vector<SlotId>& slots, void* const* addresses, size_t& next) {
  if (shape.IsTuple()) {
    std::vector<Literal> elements;
    for (const Shape& s : shape.tuple_shapes()) elements.push_back(BorrowTree(s, slots, addresses, next));
    return Literal::Tuple(std::move(elements));
  }
  const SlotId slot = slots[next++];
  return slot == kNoSlot ? Literal::Token() : Literal::Borrow(shape.WithoutLayout(), addresses[slot]);
}

void StoreTree(const Literal& value, const std::vector<SlotId>& slots, void* const* addresses, size_t& next) {
  if (value.shape().IsTuple()) {
    for (const Literal& e : value.elements()) StoreTree(e, slots, addresses, next);
    return;
  }
  const SlotId slot = slots[next++];
  if (slot != kNoSlot) std::memcpy(addresses[slot], value.bytes(), static_cast<size_t>(value.byte_size()));
}

}  // namespace

absl::Status CustomCallThunk::Run(const RunState& state) const {
  auto bind = [&](const std::vector<Leaf>& leaves) {
    std::vector<CustomCallBuffer> buffers;
    buffers.reserve(leaves.size());
    for (const Leaf& l : leaves) buffers.push_back({l.type, l.slot == kNoSlot ? nullptr : state.slots[l.slot], l.dims});
    return buffers;
  };
  std::vector<CustomCallBuffer> operands = bind(operands_);
  const std::vector<CustomCallBuffer> results = bind(results_);
  for (const AliasedLeaf& leaf : shared_) CopyOperandToResult(results[leaf.result], &operands[leaf.operand]);
  CustomCallFrame frame;
  frame.operands = operands;
  frame.results = results;
  if (state.context != nullptr) {
    frame.context = state.context->user.get();
    frame.run_id = state.context->run_id;
    frame.device_ordinal = state.context->device;
  }
  if (may_block() && state.runs_without_host_calls != nullptr) state.runs_without_host_calls->store(0);
  const Workers::Waiting in_host(Workers::Waiting::For::kHost);
  const ScopedSubnormals as_host_code_expects(Subnormals::kKeep);
  absl::StatusOr<Event> done = site_->Call(frame);
  if (!done.ok()) return AddName(done.status(), name_);
  absl::Status s = done->Await();
  return s.ok() ? s : AddName(s, name_);
}

absl::Status EvaluatorThunk::Run(const RunState& state) const {
  std::vector<Literal> operands;
  operands.reserve(operand_slots_.size());
  for (size_t k = 0; k < operand_slots_.size(); ++k) {
    size_t next = 0;
    operands.push_back(
        BorrowTree(instruction_->operand(static_cast<int64_t>(k))->shape(), operand_slots_[k], state.slots, next));
  }
  std::vector<const Literal*> pointers;
  for (const Literal& l : operands) pointers.push_back(&l);
  EvaluatorHooks hooks;
  if (state.context != nullptr) {
    hooks.replica_id = state.context->replica;
    hooks.partition_id = state.context->partition;
  }
  const ScopedSubnormals exact(Subnormals::kKeep);  // the evaluator's arithmetic has steps that need them
  absl::StatusOr<Literal> value = EvaluateInstruction(*instruction_, pointers, hooks);
  if (!value.ok()) return value.status();
  size_t next = 0;
  StoreTree(*value, result_slots_, state.slots, next);
  return absl::OkStatus();
}

absl::Status DeviceNumberThunk::Run(const RunState& state) const {
  const uint32_t number = state.context == nullptr
                              ? 0
                              : static_cast<uint32_t>(partition_ ? state.context->partition : state.context->replica);
  std::memcpy(state.slots[out_], &number, sizeof number);
  return absl::OkStatus();
}

}  // namespace backplane::engine
