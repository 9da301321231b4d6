#include "sdk/backend/collectives/transfer.h"

#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/analysis/transfer_order.h"
#include "core/types/status_macros.h"
#include "sdk/backend/workers.h"

namespace backplane {
namespace {

// Turns of sends and of receives on a channel are counted apart, and apart from those of collectives.
int64_t Counter(int64_t channel, bool sends) { return -2 * channel - (sends ? 2 : 1); }

// A device of the launch that the plan was made for.
absl::Status CheckMember(const LaunchMember* member, absl::string_view name, size_t processes) {
  if (member == nullptr) return absl::InternalError(absl::StrCat(name, ": the program was run without its launch"));
  if (member->process() >= 0 && static_cast<size_t>(member->process()) < processes) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(name, ": process ", member->process(), " of ", processes));
}

absl::Status Named(absl::string_view name, const absl::Status& s) {
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
  const Instruction& begin = t->sends_ || feed ? op : *op.operand(0);
  t->channel_ = feed ? kFeedChannel : begin.attrs().GetInt(AttrId::kChannelId);
  t->host_ = feed || begin.attrs().GetBool(AttrId::kIsHostTransfer);
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
  const int64_t count = across_partitions ? partitions : replicas, others = across_partitions ? replicas : partitions;
  t->peer_.assign(static_cast<size_t>(replicas * partitions), -1);
  ASSIGN_OR_RETURN(const Pairs pairs, TransferPairs(begin));
  for (const auto& [source, target] : pairs) {
    if (source < 0 || source >= count || target < 0 || target >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat(begin.name(), ": source_target_pairs name ", source, " and ", target, ", there are ", count));
    }
    for (int64_t o = 0; o < others; ++o) {
      const int64_t from = across_partitions ? o * partitions + source : source * partitions + o;
      const int64_t to = across_partitions ? o * partitions + target : target * partitions + o;
      int64_t& peer = t->peer_[static_cast<size_t>(t->sends_ ? from : to)];
      if (peer >= 0) return absl::InvalidArgumentError(absl::StrCat(begin.name(), ": a device stands in two pairs"));
      peer = t->sends_ ? to : from;
    }
  }
  return t;
}

absl::Status Transfer::Send(LaunchMember* member, const ExecuteContext* context,
                            absl::Span<const void* const> leaves) const {
  if (host_) {
    if (context == nullptr) return absl::FailedPreconditionError(absl::StrCat(name_, ": the host takes nothing"));
    const Workers::Waiting in_host(Workers::Waiting::For::kHost);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CustomCallBuffer buffer{leaves_[i].element_type(), const_cast<void*>(leaves[i]), leaves_[i].dimensions()};
      RETURN_IF_ERROR(Named(name_, context->SendToHost(channel_, buffer)));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckMember(member, name_, peer_.size()));
  const int64_t to = peer_[static_cast<size_t>(member->process())];
  const int64_t turn = member->NextTurn(Counter(channel_, true));
  if (to < 0) return absl::OkStatus();
  std::string bytes;
  bytes.reserve(static_cast<size_t>(bytes_));
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (leaves_[i].byte_size() > 0)
      bytes.append(static_cast<const char*>(leaves[i]), static_cast<size_t>(leaves_[i].byte_size()));
  }
  return member->launch().Post(channel_, turn, member->process(), to, std::move(bytes));
}

absl::Status Transfer::Receive(LaunchMember* member, const ExecuteContext* context,
                               absl::Span<void* const> leaves) const {
  if (host_) {
    if (context == nullptr) return absl::FailedPreconditionError(absl::StrCat(name_, ": the host gives nothing"));
    const Workers::Waiting in_host(Workers::Waiting::For::kHost);
    for (size_t i = 0; i < leaves.size(); ++i) {
      CustomCallBuffer buffer{leaves_[i].element_type(), leaves[i], leaves_[i].dimensions()};
      RETURN_IF_ERROR(Named(name_, context->ReceiveFromHost(channel_, buffer)));
    }
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(CheckMember(member, name_, peer_.size()));
  const int64_t from = peer_[static_cast<size_t>(member->process())];
  const int64_t turn = member->NextTurn(Counter(channel_, false));
  std::string bytes(static_cast<size_t>(bytes_), '\0');
  if (from >= 0) {
    ASSIGN_OR_RETURN(bytes, member->launch().Fetch(channel_, turn, from, member->process(), name_));
  }
  if (static_cast<int64_t>(bytes.size()) != bytes_) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": takes ", bytes_, " bytes, ", bytes.size(), " were sent on channel ", channel_));
  }
  size_t at = 0;
  for (size_t i = 0; i < leaves.size(); ++i) {
    const size_t n = static_cast<size_t>(leaves_[i].byte_size());
    if (n > 0) std::memcpy(leaves[i], bytes.data() + at, n);
    at += n;
  }
  return absl::OkStatus();
}

}  // namespace backplane
