#include "core/passes/partition/partitioner.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/passes/rewrite.h"
#include "core/types/status_macros.h"

namespace backplane {

void PartitionContext::MarkManual(const Computation* c, bool parameters_are_manual) {
  for (const auto& owned : c->instructions()) {
    const Instruction* i = owned.get();
    bool is_manual = parameters_are_manual && i->Is(Opcode::kParameter);
    for (const Instruction* o : i->operands()) is_manual |= IsManual(o);
    if (i->Is(Opcode::kCustomCall)) {
      if (i->custom_call_target() == "SPMDFullToShardShape") is_manual = true;
      if (i->custom_call_target() == "SPMDShardToFullShape") is_manual = false;
    }
    if (is_manual) manual.insert(i->id());
    const bool executes_called = i->Is(Opcode::kWhile) || i->Is(Opcode::kConditional) || i->Is(Opcode::kAsyncStart);
    for (const Computation* called : executes_called ? i->called() : absl::Span<Computation* const>())
      MarkManual(called, is_manual);
  }
}

absl::Status PrependName(const Instruction* i, const absl::Status& s) {
  return absl::Status(s.code(), absl::StrCat(i->name(), ": ", s.message()));
}

absl::Status Partitioner::RemoveReplaced() {
  for (Instruction* i : replaced_) {
    if (i->users().empty() && i != c_->root()) RETURN_IF_ERROR(c_->Remove(i));
  }
  replaced_.clear();
  return absl::OkStatus();
}

namespace {

// Returns the device of a host transfer with a maximal sharding. `i` may be either half of the transfer.
std::optional<int64_t> GetHostTransferDevice(const Instruction* i) {
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
        if (IsShardingAnnotation(i)) {
          // An annotation in a manual region applies to the remaining axes and does not change the shard.
          if (!manual) RETURN_IF_ERROR(target == "Sharding" ? HandleAnnotation(i) : HandleShardingGroup(i));
        } else if (target == "SPMDFullToShardShape" && i->operand_count() == 1) {
          RETURN_IF_ERROR(EnterManualRegion(i));
        } else if (target == "SPMDShardToFullShape" && i->operand_count() == 1) {
          RETURN_IF_ERROR(LeaveManualRegion(i));
        } else if (const auto host = FindCustomPartitioning(target); host != nullptr && host->inspect) {
          RETURN_IF_ERROR(ReportSharding(i, *host));
        } else if (partitions_ < 2 || manual) {
          continue;
        } else if (host != nullptr) {
          RETURN_IF_ERROR(PartitionByHost(i, *host));
        } else if (target == "InspectSharding" || target == "CustomSPMDPartitioning") {
          // These calls name a function of the host that must be called during compilation.
          return absl::UnimplementedError(
              absl::StrCat(i->name(), ": custom call '", target,
                           "' needs the host to partition it, and the host has registered no function"));
        } else if (absl::StrContains(target, "_partitioned_python_")) {
          // Runs on every partition, on its shards.
          for (int64_t k = 0; k < i->operand_count(); ++k) {
            if (const Shards* s = FindShards(i->operand(k))) i->ReplaceOperand(k, s->value);
          }
        } else if (i->sharding() != nullptr && i->sharding()->type == Sharding::Type::kMaximal) {
          RETURN_IF_ERROR(RunOnOneDevice(i, i->sharding()->devices[0]));
        } else {
          ASSIGN_OR_RETURN(bool batched, PartitionBatchedCall(i));
          if (!batched) continue;
        }
        changed = true;
        continue;
      }
      case Opcode::kSend:
      case Opcode::kRecv:
        if (GetHostTransferDevice(i)) continue;  // handled with the done half
        break;
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
        if (partitions_ < 2 || manual || !GetHostTransferDevice(i)) break;
        RETURN_IF_ERROR(RunOnOneDevice(i, *GetHostTransferDevice(i)));
        changed = true;
        continue;
      case Opcode::kGetTupleElement:
        if (!i->operand(0)->Is(Opcode::kTuple)) continue;
        i->ReplaceAllUsesWith(i->operand(0)->operand(i->tuple_index()));
        changed = true;
        continue;
      case Opcode::kWhile:
        RETURN_IF_ERROR(manual || partitions_ < 2 ? RewriteCalledComputations(i) : RewriteLoop(i));
        changed = true;
        continue;
      case Opcode::kConditional:
      case Opcode::kAsyncStart:
        RETURN_IF_ERROR(RewriteCalledComputations(i));
        changed = true;
        continue;
      case Opcode::kRng:
      case Opcode::kRngGetAndUpdateState:
        if (partitions_ < 2 || manual) continue;
        RETURN_IF_ERROR(BroadcastRandomValue(i));
        changed = true;
        continue;
      default:
        break;
    }
    if (partitions_ < 2 || manual) continue;
    if (i->shape().IsTuple()) {
      ASSIGN_OR_RETURN(const bool is_split, PartitionMultiOutput(i));
      changed |= is_split;
      continue;
    }
    const Tiling* propagated = depth_ == 0 && i->shape().IsArray() ? context_.FindPropagated(i) : nullptr;
    ASSIGN_OR_RETURN(std::optional<Shards> shards, ComputeOnShards(i));
    if (!shards && propagated == nullptr) continue;
    Instruction* full = shards ? ReplaceWithShards(i, *std::move(shards)) : i;
    if (propagated != nullptr) RETURN_IF_ERROR(ApplyPropagatedTiling(full, *propagated));
    changed = true;
  }
  return changed;
}

}  // namespace backplane
