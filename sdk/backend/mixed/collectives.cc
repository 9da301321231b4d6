#include "sdk/backend/mixed/collectives.h"
#include "sdk/backend/workers.h"

#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::mixed {
namespace {

// Addresses of the leaves, in order.
void AddBytes(const Literal& value, std::vector<const void*>& out) {
  if (!value.shape().IsTuple()) return out.push_back(value.bytes());
  for (const Literal& element : value.elements()) AddBytes(element, out);
}

void AddMutableBytes(Literal& value, std::vector<void*>& out) {
  if (!value.shape().IsTuple()) return out.push_back(value.shape().IsArray() ? value.mutable_bytes() : nullptr);
  for (Literal& element : value.mutable_elements()) AddMutableBytes(element, out);
}

}  // namespace

absl::StatusOr<Collectives> Collectives::Create(const Module& module) {
  Collectives out;
  const absl::flat_hash_map<const Instruction*, int64_t> numbers = NumberCollectives(module);
  for (const Computation* computation : module.PostOrder()) {
    for (const auto& i : computation->instructions()) {
      const bool host = i->attrs().GetBool(AttrId::kIsHostTransfer);
      const bool feed = i->Is(Opcode::kInfeed) || i->Is(Opcode::kOutfeed);
      if (feed || ((i->Is(Opcode::kSend) || i->Is(Opcode::kRecvDone)) && !host)) {
        ASSIGN_OR_RETURN(out.transfers_[i.get()],
                         Transfer::Make(*i, module.config().num_replicas, module.config().num_partitions));
      }
      if (!i->info().Has(kCollective)) continue;
      ASSIGN_OR_RETURN(out.plans_[i.get()], HostCollective::Make(*i, numbers.at(i.get()), module.config().num_replicas,
                                                                 module.config().num_partitions));
    }
  }
  return out;
}

absl::StatusOr<Literal> Collectives::Run(const Instruction& op, absl::Span<const Literal* const> operands,
                                         LaunchMember& member) const {
  if (auto at = transfers_.find(&op); at != transfers_.end()) {
    if (op.Is(Opcode::kSend)) {
      std::vector<const void*> in;
      AddBytes(*operands[0], in);
      RETURN_IF_ERROR(at->second->Send(&member, nullptr, in));
      return *operands[0];
    }
    Literal data(op.shape().tuple_shapes(0));
    std::vector<void*> out;
    AddMutableBytes(data, out);
    RETURN_IF_ERROR(at->second->Receive(&member, nullptr, out));
    return data;
  }
  auto plan = plans_.find(&op);
  if (plan == plans_.end())
    return absl::UnimplementedError(absl::StrCat(op.info().text, " between devices is not offered"));
  Literal result(op.shape());
  std::vector<const void*> in;
  for (const Literal* operand : operands) AddBytes(*operand, in);
  std::vector<void*> out;
  AddMutableBytes(result, out);
  RETURN_IF_ERROR(plan->second->Run(member, in, out, [](int64_t chunks, absl::FunctionRef<void(int64_t)> body) {
    for (int64_t i = 0; i < chunks; ++i) body(i);
  }));
  return result;
}

absl::StatusOr<Literal> Collectives::RunHostTransfer(const Instruction& op, absl::Span<const Literal* const> operands,
                                                     const ExecuteContext* context) const {
  if (context == nullptr) return absl::FailedPreconditionError("the host has no end of this channel");
  const bool gives = op.Is(Opcode::kSend) || op.Is(Opcode::kOutfeed);
  Literal data = gives ? *operands[0] : Literal(op.shape().tuple_shapes(0));
  if (auto feed = transfers_.find(&op); feed != transfers_.end()) {
    if (gives) {
      std::vector<const void*> in;
      AddBytes(data, in);
      RETURN_IF_ERROR(feed->second->Send(nullptr, context, in));
    } else {
      std::vector<void*> out;
      AddMutableBytes(data, out);
      RETURN_IF_ERROR(feed->second->Receive(nullptr, context, out));
    }
    return data;
  }
  if (!data.shape().IsArray())
    return absl::UnimplementedError(absl::StrCat("transfers ", data.shape().ToString(), ", expected an array"));
  const int64_t channel = op.attrs().GetInt(AttrId::kChannelId);
  const Shape shape = data.shape();
  CustomCallBuffer buffer{shape.element_type(), nullptr, shape.dimensions()};
  const Workers::Waiting in_host(Workers::Waiting::For::kHost);
  if (gives) {
    buffer.data = const_cast<std::byte*>(data.bytes());
    RETURN_IF_ERROR(context->SendToHost(channel, buffer));
  } else {
    buffer.data = data.mutable_bytes();
    RETURN_IF_ERROR(context->ReceiveFromHost(channel, buffer));
  }
  return data;
}

}  // namespace backplane::mixed
