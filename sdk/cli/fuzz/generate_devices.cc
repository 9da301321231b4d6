// Recipes for programs on several devices: collectives in all group modes.
#include <algorithm>
#include <numeric>

#include "sdk/cli/fuzz/devices.h"
#include "sdk/cli/fuzz/generator.h"

namespace backplane::cli::fuzz {
namespace {}  // namespace

std::vector<Generator::Recipe> Generator::DeviceRecipes() {
  std::vector<Recipe> recipes = {
      {30, {Opcode::kAllReduce}, &Generator::AllReduce},
      {16, {Opcode::kAllGather}, &Generator::AllGather},
      {16, {Opcode::kReduceScatter}, &Generator::ReduceScatter},
      {16, {Opcode::kAllToAll}, &Generator::AllToAll},
      {16, {Opcode::kCollectivePermute}, &Generator::CollectivePermute},
      {8, {Opcode::kCollectiveBroadcast}, &Generator::CollectiveBroadcast},
      {8, {Opcode::kReplicaId, Opcode::kPartitionId}, &Generator::ByDevice},
      {8,
       {Opcode::kAllReduceStart, Opcode::kAllReduceDone, Opcode::kAllGatherStart, Opcode::kAllGatherDone,
        Opcode::kCollectivePermuteStart, Opcode::kCollectivePermuteDone},
       &Generator::CollectiveHalves,
       false,
       false},
  };
  for (Recipe& r : recipes) r.devices = true;
  return recipes;
}

Generator::Members Generator::AnyMembers(bool combines, bool one_size) {
  const Devices devices = GetDevices(*program_.module);
  Members m;
  // Without a channel replicas; with one device numbers, replicas with all their partitions, or partitions.
  const int64_t mode = random_.Below(3);
  int64_t ids = devices.replicas, each = 1;
  if (mode > 0) m.channel = hlo::ChannelHandle{++channels_};
  if (mode == 1 && combines) {
    m.numbers = true;
    ids = devices.count();
  } else if (mode > 0 && combines) {
    each = devices.partitions;
  } else if (mode > 0) {
    ids = devices.partitions;
  }
  std::vector<int64_t> order = random_.Permutation(ids);
  int64_t size = ids;
  if (random_.Chance(60)) {
    size = random_.Between(1, ids);
    while (one_size && ids % size != 0) --size;
  }
  // A group of all devices may be left out.
  if (size == ids && !m.numbers.has_value() && random_.Chance(50)) {
    m.size = ids * each;
    return m;
  }
  for (size_t at = 0; at < order.size(); at += static_cast<size_t>(size)) {
    m.groups.groups.emplace_back(order.begin() + static_cast<int64_t>(at),
                                 order.begin() + std::min<int64_t>(static_cast<int64_t>(at) + size, ids));
  }
  m.size = size * each;
  return m;
}

Value Generator::AllReduce(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const std::optional<Opcode> op = AnyCombiner(type);
  Computation* body = op.has_value() ? Combiner(s, *op, type) : nullptr;
  if (body == nullptr) return nullptr;
  const Members m = AnyMembers(true, options_.portable);
  Value operand = x;
  if (random_.Chance(25)) {  // two arrays at once
    const Value y = Like(s, type, AnyDims(0, 3));
    operand = y == nullptr ? nullptr : Add(s, s.b.Tuple({x, y}));
    if (operand == nullptr) return nullptr;
  }
  return Add(s, hlo::AllReduce(s.b, operand, body, m.groups, m.channel, {}, m.numbers));
}

Value Generator::AllGather(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1, 4);
  if (x == nullptr || x->shape().num_elements() > 2000) return nullptr;
  const Members m = AnyMembers(true, true);
  return Add(s, hlo::AllGather(s.b, x, random_.Below(x->shape().rank()), m.size, m.groups, m.channel, {}, m.numbers));
}

Value Generator::ReduceScatter(Scope& s) {
  const Members m = AnyMembers(true, true);
  std::vector<int64_t> dims = AnyDims(1, 3);
  const int64_t d = random_.Below(static_cast<int64_t>(dims.size()));
  dims[static_cast<size_t>(d)] = m.size * random_.Between(1, 3);
  const PrimitiveType type = AnyType(Kind::kAny);
  const Value x = Like(s, type, dims);
  const std::optional<Opcode> op = AnyCombiner(type);
  Computation* body = op.has_value() ? Combiner(s, *op, type) : nullptr;
  if (x == nullptr || body == nullptr) return nullptr;
  return Add(s, hlo::ReduceScatter(s.b, x, body, d, m.size, m.groups, m.channel, {}, m.numbers));
}

Value Generator::AllToAll(Scope& s) {
  const Members m = AnyMembers(false, true);
  if (!options_.portable && random_.Chance(25)) {  // one complete array for each member
    const PrimitiveType type = AnyType(Kind::kAny);
    const std::vector<int64_t> dims = AnyDims(0, 2);
    std::vector<Value> operands;
    std::vector<Shape> shapes;
    for (int64_t k = 0; k < m.size; ++k) {
      operands.push_back(Like(s, type, dims));
      if (operands.back() == nullptr) return nullptr;
      shapes.push_back(operands.back()->shape().WithoutLayout());
    }
    Attributes attrs;
    attrs.Set(AttrId::kReplicaGroups, m.groups);
    if (m.channel.has_value()) attrs.Set(AttrId::kChannelId, m.channel->handle);
    return Add(s, s.b.Op(Opcode::kAllToAll, operands, std::move(attrs), {}, Shape::Tuple(shapes)));
  }
  std::vector<int64_t> dims = AnyDims(1, 3);
  const int64_t rank = static_cast<int64_t>(dims.size()), split = random_.Below(rank);
  const int64_t concat = random_.Chance(50) ? split : random_.Below(rank);
  dims[static_cast<size_t>(split)] = m.size * random_.Between(1, 3);
  const Value x = Like(s, AnyType(Kind::kAny), dims);
  if (x == nullptr) return nullptr;
  return Add(s, hlo::AllToAll(s.b, x, split, concat, m.size, m.groups, {}, m.channel));
}

Pairs Generator::AnyPairs(int64_t ids) {
  const std::vector<int64_t> from = random_.Permutation(ids), to = random_.Permutation(ids);
  Pairs pairs;
  for (size_t k = 0; k < from.size(); ++k) {
    if (random_.Chance(80)) pairs.emplace_back(from[k], to[k]);
  }
  return pairs;
}

Value Generator::CollectivePermute(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  const Devices devices = GetDevices(*program_.module);
  hlo::Channel channel;
  if (random_.Chance(50)) channel = hlo::ChannelHandle{++channels_};
  return Add(s, hlo::CollectivePermute(s.b, x, AnyPairs(channel.has_value() ? devices.partitions : devices.replicas),
                                       channel));
}

Value Generator::CollectiveBroadcast(Scope& s) {
  const Value x = Any(s, Kind::kAny);
  if (x == nullptr) return nullptr;
  Members m = AnyMembers(false, true);
  if (m.groups.groups.empty()) return nullptr;
  if (m.groups.groups.size() > 1 && random_.Chance(40)) m.groups.groups.pop_back();
  return Add(s, hlo::CollectiveBroadcast(s.b, x, m.groups, m.channel));
}

// Adds the device's own number to the values.
Value Generator::ByDevice(Scope& s) {
  const Value id = Add(s, s.b.Op(random_.Chance(50) ? Opcode::kReplicaId : Opcode::kPartitionId, {}, {}, {},
                                 Shape(PrimitiveType::kU32, {})));
  const Value x = Any(s, Kind::kReal);
  if (id == nullptr || x == nullptr) return nullptr;
  const Value number = Add(s, s.b.Convert(id, x->shape().element_type()));
  if (number == nullptr) return nullptr;
  const Value wide = Add(s, s.b.BroadcastInDim(number, GetDims(x), {}));
  return wide == nullptr ? nullptr : Add(s, s.b.Binary(PickOne({Opcode::kAdd, Opcode::kMultiply}), x, wide));
}

Value Generator::CollectiveHalves(Scope& s) {
  const Value x = Any(s, Kind::kAny, 1, 4);
  if (x == nullptr || x->shape().num_elements() > 2000) return nullptr;
  const PrimitiveType type = x->shape().element_type();
  const Devices devices = GetDevices(*program_.module);
  switch (random_.Below(3)) {
    case 0: {
      const std::optional<Opcode> op = AnyCombiner(type);
      Computation* body = op.has_value() ? Combiner(s, *op, type) : nullptr;
      if (body == nullptr) return nullptr;
      const Members m = AnyMembers(true, true);
      const Value start = Add(s, hlo::CreateAllReduceStart(s.b, x, body, m.groups, m.channel, {}, m.numbers));
      return start == nullptr ? nullptr : Add(s, hlo::AllReduceDone(s.b, start));
    }
    case 1: {
      const Members m = AnyMembers(true, true);
      const Value start = Add(s, hlo::CreateAllGatherStart(s.b, x, random_.Below(x->shape().rank()), m.size, m.groups,
                                                           m.channel, {}, m.numbers));
      return start == nullptr ? nullptr : Add(s, hlo::AllGatherDone(s.b, start));
    }
    default: {
      hlo::Channel channel;
      if (random_.Chance(50)) channel = hlo::ChannelHandle{++channels_};
      const int64_t ids = channel.has_value() ? devices.partitions : devices.replicas;
      const Value start = Add(s, hlo::CreateCollectivePermuteStart(s.b, x, AnyPairs(ids), channel));
      return start == nullptr ? nullptr : Add(s, hlo::CollectivePermuteDone(s.b, start));
    }
  }
}

}  // namespace backplane::cli::fuzz
