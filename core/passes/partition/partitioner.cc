#include "core/passes/partition/partitioner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

void PartitionContext::MarkManual(const Computation* c, bool parameters) {
  for (const auto& owned : c->instructions()) {
    const Instruction* i = owned.get();
    bool inside = parameters && i->Is(Opcode::kParameter);
    for (const Instruction* o : i->operands()) inside |= IsManual(o);
    if (i->Is(Opcode::kCustomCall)) {
      if (i->custom_call_target() == "SPMDFullToShardShape") inside = true;
      if (i->custom_call_target() == "SPMDShardToFullShape") inside = false;
    }
    if (inside) manual.insert(i->id());
    const bool runs = i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional) || i->Is(Opcode::kAsyncStart);
    for (const Computation* called : runs ? i->called() : absl::Span<Computation* const>()) MarkManual(called, inside);
  }
}

absl::Status Partitioner::RemoveReplaced() {
  for (Instruction* i : replaced_) {
    if (i->users().empty() && i != c_->root()) RETURN_IF_ERROR(c_->Remove(i));
  }
  replaced_.clear();
  return absl::OkStatus();
}

namespace {

// The device that a transfer to or from the host is bound to, of its first half or its second.
std::optional<int64_t> HostTransferDevice(const Instruction* i) {
  const Instruction* start = i->Is(Opcode::kSendDone) || i->Is(Opcode::kRecvDone) ? i->operand(0) : i;
  if (!start->Is(Opcode::kSend) && !start->Is(Opcode::kRecv)) return std::nullopt;
  if (!start->attrs().Has(AttrId::kIsHostTransfer) || !start->attrs().GetBool(AttrId::kIsHostTransfer) ||
      start->sharding() == nullptr)
    return std::nullopt;
  if (start->sharding()->type != Sharding::Type::kMaximal) return std::nullopt;
  return start->sharding()->devices[0];
}

}  // namespace

absl::StatusOr<bool> Partitioner::Rewrite() {
  bool changed = false;
  for (Instruction* i : c_->Snapshot()) {
    const bool manual = context_.IsManual(i);
    switch (i->opcode()) {
      case Opcode::kParameter:
        continue;
      case Opcode::kCustomCall: {
        const std::string& target = i->custom_call_target();
        if (IsAnnotation(i)) {
          // Inside a manual region a sharding along the remaining axes changes nothing about the value.
          if (!manual) RETURN_IF_ERROR(target == "Sharding" ? Annotation(i) : Alike(i));
        } else if (target == "SPMDFullToShardShape" && i->operand_count() == 1) {
          RETURN_IF_ERROR(EnterManual(i));
        } else if (target == "SPMDShardToFullShape" && i->operand_count() == 1) {
          RETURN_IF_ERROR(LeaveManual(i));
        } else if (const auto host = FindCustomPartitioning(target); host != nullptr && host->inspect) {
          RETURN_IF_ERROR(Inspect(i, *host));
        } else if (partitions_ < 2 || manual) {
          continue;
        } else if (host != nullptr) {
          RETURN_IF_ERROR(SplitAsHostSays(i, *host));
        } else if (target == "InspectSharding" || target == "CustomSPMDPartitioning") {
          // They carry the address of a function of the host that is to be asked during compilation.
          return absl::UnimplementedError(
              absl::StrCat(i->name(), ": custom call '", target,
                           "' asks the host how it is split, and the host has registered nobody to ask"));
        } else if (absl::StrContains(target, "_partitioned_python_")) {
          // Runs everywhere, on what each partition has.
          for (int64_t k = 0; k < i->operand_count(); ++k) {
            if (const Shards* s = FindShards(i->operand(k))) i->ReplaceOperand(k, s->value);
          }
        } else if (i->sharding() != nullptr && i->sharding()->type == Sharding::Type::kMaximal) {
          RETURN_IF_ERROR(RunOnce(i, i->sharding()->devices[0]));
        } else {
          ASSIGN_OR_RETURN(bool batched, BatchedCall(i));
          if (!batched) continue;
        }
        changed = true;
        continue;
      }
      case Opcode::kSend:
      case Opcode::kRecv:
        if (HostTransferDevice(i)) continue;  // goes with its second half
        break;
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
        if (partitions_ < 2 || manual || !HostTransferDevice(i)) break;
        RETURN_IF_ERROR(RunOnce(i, *HostTransferDevice(i)));
        changed = true;
        continue;
      case Opcode::kGetTupleElement:
        if (!i->operand(0)->Is(Opcode::kTuple)) continue;
        i->ReplaceAllUsesWith(i->operand(0)->operand(i->tuple_index()));
        changed = true;
        continue;
      case Opcode::kWhile:
        RETURN_IF_ERROR(manual || partitions_ < 2 ? RewriteCalled(i) : RewriteLoop(i));
        changed = true;
        continue;
      case Opcode::kConditional:
      case Opcode::kAsyncStart:
        RETURN_IF_ERROR(RewriteCalled(i));
        changed = true;
        continue;
      case Opcode::kRng:
      case Opcode::kRngGetAndUpdateState:
        if (partitions_ < 2 || manual) continue;
        RETURN_IF_ERROR(DrawOnce(i));
        changed = true;
        continue;
      default:
        break;
    }
    if (partitions_ < 2 || manual) continue;
    const Tiling* proposed = depth_ == 0 && i->shape().IsArray() ? context_.Proposed(i) : nullptr;
    ASSIGN_OR_RETURN(std::optional<Shards> local, ComputeLocally(i));
    if (!local && proposed == nullptr) continue;
    Instruction* whole = local ? Adopt(i, *std::move(local)) : i;
    if (proposed != nullptr) RETURN_IF_ERROR(Follow(whole, *proposed));
    changed = true;
  }
  return changed;
}

}  // namespace backplane
