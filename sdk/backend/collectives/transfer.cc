#include "sdk/backend/collectives/transfer.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/analysis/transfer_order.h"
#include "core/types/status_macros.h"
#include "sdk/backend/workers.h"

namespace backplane {
namespace {

// Returns the key under which a LaunchMember counts the executions of sends or of receives on a channel. The keys of
// collectives are their instruction ids, which are not negative.
int64_t GetIterationKey(int64_t channel, bool sends) { return -2 * channel - (sends ? 2 : 1); }

// Checks that the member belongs to a launch of as many processes as the transfer was made for.
absl::Status CheckMember(const LaunchMember* member, absl::string_view name, size_t processes) {
  if (member == nullptr) return absl::InternalError(absl::StrCat(name, ": the program was run without its launch"));
  if (member->process() >= 0 && static_cast<size_t>(member->process()) < processes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, ": process ", member->process(), " of ", processes));
}

absl::Status PrependName(absl::string_view name, const absl::Status& s) {
  return s.ok() ? s : absl::Status(s.code(), absl::StrCat(name, ": ", s.message()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Transfer>> Transfer::Make(const Instruction& op, int64_t replicas, int64_t partitions) {
  std::unique_ptr<Transfer> t(new Transfer);
  t->name_ = op.name();
  const bool feed = op.Is(Opcode::kInfeed) || op.Is(Opcode::kOutfeed);
  t->sends_ = op.Is(Opcode::kSend) || op.Is(Opcode::kOutfeed);
  if (!t->sends_ && !feed && !(op.Is(Opcode::kRecvDone) && op.operand(0)->Is(Opcode::kRecv))) {
    return absl::UnimplementedError(absl::StrCat(op.name(), ": ", op.info().text, " without its recv"));
  }
  const Instruction& start = t->sends_ || feed ? op : *op.operand(0);
  t->channel_ = feed ? kFeedChannel : start.attrs().GetInt(AttrId::kChannelId);
  t->host_ = feed || start.attrs().GetBool(AttrId::kIsHostTransfer);
  const Shape& data = t->sends_ ? op.operand(0)->shape() : op.shape().tuple_shapes(0);
  bool arrays = true;
  ForEachLeaf(data, [&](const Shape& s, const std::vector<int64_t>&) {
    arrays &= s.IsArray();
    t->leaves_.push_back(s.WithoutLayout());
    t->bytes_ += s.IsArray() ? s.byte_size() : 0;
  });
  if (!arrays || (t->host_ && !feed && t->leaves_.size() != 1)) {
    return absl::UnimplementedError(absl::StrCat(op.name(), ": transfers ", data.ToString(), ", expected an array"));
  }
  if (t->host_) return t;
  const bool across_partitions = partitions > 1;
  const int64_t count = across_partitions ? partitions : replicas, copies = across_partitions ? replicas : partitions;
  t->peer_.assign(static_cast<size_t>(replicas * partitions), -1);
  ASSIGN_OR_RETURN(const Pairs pairs, GetTransferPairs(start));
  for (const auto& [source, target] : pairs) {
    if (source < 0 || source >= count || target < 0 || target >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat(start.name(), ": source_target_pairs name ", source, " and ", target, ", there are ", count));
    }
    for (int64_t copy = 0; copy < copies; ++copy) {
      const int64_t from = across_partitions ? copy * partitions + source : source * partitions + copy;
      const int64_t to = across_partitions ? copy * partitions + target : target * partitions + copy;
      int64_t& peer = t->peer_[static_cast<size_t>(t->sends_ ? from : to)];
      if (peer >= 0) return absl::InvalidArgumentError(absl::StrCat(start.name(), ": a device is in two pairs"));
      peer = t->sends_ ? to : from;
    }
  }
  return t;
}

absl::Status Transfer::Send(LaunchMember* member, const ExecuteContext* context,
                            absl::Span<const void* const> leaves) const {
  if (host_) {
    if (context == nullptr)
      return absl::FailedPreconditionError(absl::StrCat(name_, ": the execution has no host to send to"));
    const Workers::Waiting blocked(Workers::Waiting::For::kHost);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CustomCallBuffer buffer{leaves_[i].element_type(), const_cast<void*>(leaves[i]), leaves_[i].dimensions()};
      RETURN_IF_ERROR(PrependName(name_, context->SendToHost(channel_, buffer)));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckMember(member, name_, peer_.size()));
  const int64_t to = peer_[static_cast<size_t>(member->process())];
  const int64_t iteration = member->NextIteration(GetIterationKey(channel_, true));
  if (to < 0) return absl::OkStatus();
  std::string bytes;
  bytes.reserve(static_cast<size_t>(bytes_));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves_[i].byte_size() > 0)
      bytes.append(static_cast<const char*>(leaves[i]), static_cast<size_t>(leaves_[i].byte_size()));
  }
  return member->launch().PostMessage(channel_, iteration, member->process(), to, std::move(bytes), name_);
}

absl::Status Transfer::Receive(LaunchMember* member, const ExecuteContext* context,
                               absl::Span<void* const> leaves) const {
  if (host_) {
    if (context == nullptr)
      return absl::FailedPreconditionError(absl::StrCat(name_, ": the execution has no host to receive from"));
    const Workers::Waiting blocked(Workers::Waiting::For::kHost);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CustomCallBuffer buffer{leaves_[i].element_type(), leaves[i], leaves_[i].dimensions()};
      RETURN_IF_ERROR(PrependName(name_, context->ReceiveFromHost(channel_, buffer)));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckMember(member, name_, peer_.size()));
  const int64_t from = peer_[static_cast<size_t>(member->process())];
  const int64_t iteration = member->NextIteration(GetIterationKey(channel_, false));
  std::string bytes(static_cast<size_t>(bytes_), '\0');
  if (from >= 0) {
    ASSIGN_OR_RETURN(bytes, member->launch().FetchMessage(channel_, iteration, from, member->process(), bytes_, name_));
  }
  if (static_cast<int64_t>(bytes.size()) != bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": takes ", bytes_, " bytes, ", bytes.size(), " were sent on channel ", channel_));
  }
  size_t offset = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const size_t n = static_cast<size_t>(leaves_[i].byte_size());
    if (n > 0) std::memcpy(leaves[i], bytes.data() + offset, n);
    offset += n;
  }
  return absl::OkStatus();
}

}  // namespace backplane
