#include "sdk/cli/fuzz/devices.h"

#include <complex>
#include <cstring>
#include <numeric>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane::cli::fuzz {
namespace {

using P = PrimitiveType;
using Group = std::vector<int64_t>;  // numbers of devices, in order

bool ReducesOrGathers(Opcode op) {
  return op == Opcode::kAllReduce || op == Opcode::kAllGather || op == Opcode::kReduceScatter ||
         op == Opcode::kAllReduceStart || op == Opcode::kAllGatherStart;
}

// Returns the process groups by the StableHLO specification. Without a channel the ids are replicas, with one group in
// each partition. With a channel they are device numbers if the operation says so. Otherwise they are replicas with all
// their partitions (for operations that reduce or gather) or partitions, with one group in each replica (for the
// others).
std::vector<Group> GroupsOf(const Instruction& i, const Devices& devices) {
  const bool channel = i.attrs().GetInt(AttrId::kChannelId) > 0;
  const bool numbers = channel && i.attrs().GetBool(AttrId::kUseGlobalDeviceIds);
  const bool partition_ids = channel && !numbers && !ReducesOrGathers(i.opcode());
  std::vector<Ints> lists = i.attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  if (lists.empty()) {
    lists.emplace_back(static_cast<size_t>(numbers         ? devices.count()
                                           : partition_ids ? devices.partitions
                                                           : devices.replicas));
    std::iota(lists[0].begin(), lists[0].end(), 0);
  }
  auto number = [&](int64_t replica, int64_t partition) { return replica * devices.partitions + partition; };
  std::vector<Group> groups;
  for (const Ints& list : lists) {
    if (numbers) {
      groups.emplace_back(list.begin(), list.end());
    } else if (partition_ids) {
      for (int64_t r = 0; r < devices.replicas; ++r) {
        groups.emplace_back();
        for (const int64_t p : list) groups.back().push_back(number(r, p));
      }
    } else if (channel) {
      groups.emplace_back();
      for (int64_t p = 0; p < devices.partitions; ++p) {
        for (const int64_t r : list) groups.back().push_back(number(r, p));
      }
    } else {
      for (int64_t p = 0; p < devices.partitions; ++p) {
        groups.emplace_back();
        for (const int64_t r : list) groups.back().push_back(number(r, p));
      }
    }
  }
  return groups;
}

// Returns the neutral element; nullopt if there is none.
std::optional<Literal> NeutralOf(Opcode op, P type) {
  const bool whole = IsIntegral(type) || type == P::kPred;
  switch (op) {
    case Opcode::kAdd:
      if (IsComplex(type)) {
        Literal zero(Shape::Scalar(type));
        if (type == P::kC64) zero.mutable_data<std::complex<float>>()[0] = {-0.0f, -0.0f};
        if (type == P::kC128) zero.mutable_data<std::complex<double>>()[0] = {-0.0, -0.0};
        return zero;
      }
      return whole ? Literal::ScalarInt(type, 0) : Literal::Scalar(type, HasNegativeZero(type) ? -0.0 : 0.0);
    case Opcode::kOr:
    case Opcode::kXor:
      return Literal::ScalarInt(type, 0);
    case Opcode::kMultiply:
      return whole ? Literal::ScalarInt(type, 1) : Literal::Scalar(type, 1);
    case Opcode::kAnd:
      return type == P::kPred ? Literal::ScalarInt(type, 1) : Literal::ScalarInt(type, -1);
    default:
      return std::nullopt;
  }
}

using MakeResult = std::function<absl::StatusOr<Value>(Builder&, const std::vector<Value>&)>;

// Computes the meaning of a computation for given values.
absl::StatusOr<BoundedValue> BoundProgram(const std::vector<const BoundedValue*>& values, const MakeResult& make) {
  Module module("members");
  Builder b(&module, "main");
  std::vector<Value> parameters;
  std::vector<BoundedValue> arguments;
  for (const BoundedValue* j : values) {
    ASSIGN_OR_RETURN(const Value p, b.Parameter(static_cast<int64_t>(parameters.size()), j->value.shape()));
    parameters.push_back(p);
    arguments.push_back(*j);
  }
  ASSIGN_OR_RETURN(const Value root, make(b, parameters));
  ASSIGN_OR_RETURN(Computation * main, b.Build(root));
  return BoundComputation(*main, arguments);
}

// Combines the arrays of all members, element by element, in any order.
absl::StatusOr<BoundedValue> Combined(const Instruction& i, const std::vector<const BoundedValue*>& members) {
  if (members.size() == 1) return *members[0];
  const std::optional<Opcode> op = FindBinary(*i.called(0), 0, 1);
  if (!op.has_value()) return absl::UnimplementedError("a reduction of devices by more than one operation");
  return BoundProgram(members, [&](Builder& b, const std::vector<Value>& x) -> absl::StatusOr<Value> {
    const std::optional<Literal> neutral = NeutralOf(*op, x[0]->shape().element_type());
    if (!neutral.has_value()) {  // max and min: every order gives the same result
      Value all = x[0];
      for (size_t k = 1; k < x.size(); ++k) {
        ASSIGN_OR_RETURN(all, b.Binary(*op, all, x[k]));
      }
      return all;
    }
    std::vector<int64_t> dims(x[0]->shape().dimensions().begin(), x[0]->shape().dimensions().end());
    dims.insert(dims.begin(), 1);
    std::vector<Value> rows;
    for (const Value v : x) {
      ASSIGN_OR_RETURN(const Value row, b.Reshape(v, dims));
      rows.push_back(row);
    }
    ASSIGN_OR_RETURN(const Value together, b.Concatenate(rows, 0));
    ASSIGN_OR_RETURN(const Value init, b.Constant(*neutral));
    ASSIGN_OR_RETURN(Computation * body, MakeScalarBinaryComputation(b.module(), *op, x[0]->shape().element_type()));
    return b.Reduce({together}, {init}, body, {0});
  });
}

absl::StatusOr<Value> Block(Builder& b, Value x, int64_t dimension, int64_t k, int64_t count) {
  SliceConfig slices;
  for (int64_t d = 0; d < x->shape().rank(); ++d) slices.push_back({0, x->shape().dimensions(d), 1});
  SliceDimension& cut = slices[static_cast<size_t>(dimension)];
  const int64_t size = cut.limit / count;
  cut.start = k * size;
  cut.limit = cut.start + size;
  return b.Slice(x, slices);
}

// Returns operand k of member m of a group, for one result.
using Operand = std::function<const BoundedValue*(size_t member, size_t k)>;

absl::StatusOr<BoundedValue> ResultOf(const Instruction& i, const Operand& operand, size_t members, size_t me,
                                      size_t k) {
  std::vector<const BoundedValue*> all;
  for (size_t m = 0; m < members; ++m) all.push_back(operand(m, k));
  const int64_t count = static_cast<int64_t>(members), place = static_cast<int64_t>(me);
  switch (i.opcode()) {
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
      return Combined(i, all);
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
      return BoundProgram(all,
                          [&](Builder& b, const std::vector<Value>& x) { return b.Concatenate(x, i.dimensions()[0]); });
    case Opcode::kReduceScatter: {
      ASSIGN_OR_RETURN(const BoundedValue sum, Combined(i, all));
      return BoundProgram({&sum}, [&](Builder& b, const std::vector<Value>& x) {
        return Block(b, x[0], i.dimensions()[0], place, count);
      });
    }
    case Opcode::kAllToAll:
      // With several operands each goes to one member; with one operand each member gets a block.
      if (i.shape().IsTuple()) return *operand(k, me);
      return BoundProgram(all, [&](Builder& b, const std::vector<Value>& x) -> absl::StatusOr<Value> {
        std::vector<Value> blocks;
        for (const Value v : x) {
          ASSIGN_OR_RETURN(const Value block, Block(b, v, i.dimensions()[0], place, count));
          blocks.push_back(block);
        }
        return b.Concatenate(blocks, i.dimensions()[0]);
      });
    case Opcode::kCollectiveBroadcast:
      return *all[0];
    default:
      return absl::UnimplementedError(absl::StrCat(OpName(i.opcode()), " on several devices"));
  }
}

// One result array is returned as such, several as a tuple, with the additional results of a start operation.
BoundedValue Together(const Instruction& i, const std::vector<const BoundedValue*>& operands,
                      std::vector<BoundedValue> results) {
  auto tuple = [](std::vector<BoundedValue> elements) {
    BoundedValue j;
    j.is_tuple = true;
    j.elements = std::move(elements);
    return j;
  };
  const bool pair = i.Is(Opcode::kAllGatherStart) || i.Is(Opcode::kCollectivePermuteStart);
  const bool one = results.size() == 1 && !(i.Is(Opcode::kAllToAll) && i.shape().IsTuple());
  BoundedValue given = one ? std::move(results[0]) : tuple(std::move(results));
  if (!pair) return given;
  std::vector<BoundedValue> read;
  for (const BoundedValue* o : operands) read.push_back(*o);
  BoundedValue before = read.size() == 1 ? std::move(read[0]) : tuple(std::move(read));
  return tuple({std::move(before), std::move(given)});
}

absl::StatusOr<std::vector<BoundedValue>> BoundCollective(const Instruction& i,
                                                          absl::Span<const std::vector<const BoundedValue*>> operands,
                                                          const Devices& devices) {
  const size_t count = static_cast<size_t>(devices.count()), arrays = operands[0].size();
  std::vector<std::vector<BoundedValue>> results(count);
  if (i.Is(Opcode::kCollectivePermute) || i.Is(Opcode::kCollectivePermuteStart)) {
    const bool partitions = i.attrs().GetInt(AttrId::kChannelId) > 0;
    std::vector<int64_t> source(count, -1);
    for (const auto& [from, to] : i.attrs().Get<Pairs>(AttrId::kSourceTargetPairs)) {
      for (int64_t other = 0; other < (partitions ? devices.replicas : devices.partitions); ++other) {
        auto number = [&](int64_t id) {
          return partitions ? other * devices.partitions + id : id * devices.partitions + other;
        };
        if (number(to) < 0 || number(to) >= devices.count() || number(from) < 0 || number(from) >= devices.count()) {
          return absl::InvalidArgumentError("a pair names a device that is not there");
        }
        source[static_cast<size_t>(number(to))] = number(from);
      }
    }
    for (size_t d = 0; d < count; ++d) {
      for (size_t k = 0; k < arrays; ++k) {
        results[d].push_back(source[d] < 0 ? BoundedValue::Exact(Literal(operands[d][k]->value.shape()))
                                           : *operands[static_cast<size_t>(source[d])][k]);
      }
    }
  } else {
    for (const Group& group : GroupsOf(i, devices)) {
      for (size_t me = 0; me < group.size(); ++me) {
        for (const int64_t d : group) {
          if (d < 0 || d >= devices.count())
            return absl::InvalidArgumentError("a group names a device that is not there");
        }
        const Operand operand = [&](size_t member, size_t k) {
          return operands[static_cast<size_t>(group[member])][k];
        };
        for (size_t k = 0; k < arrays; ++k) {
          ASSIGN_OR_RETURN(BoundedValue j, ResultOf(i, operand, group.size(), me, k));
          results[static_cast<size_t>(group[me])].push_back(std::move(j));
        }
      }
    }
    // Devices that are in no group of a broadcast get zeros.
    for (size_t d = 0; d < count; ++d) {
      if (!results[d].empty()) continue;
      if (!i.Is(Opcode::kCollectiveBroadcast)) return absl::InvalidArgumentError("a device is in no group");
      for (size_t k = 0; k < arrays; ++k)
        results[d].push_back(BoundedValue::Exact(Literal(operands[d][k]->value.shape())));
    }
  }
  std::vector<BoundedValue> all;
  for (size_t d = 0; d < count; ++d) all.push_back(Together(i, operands[d], std::move(results[d])));
  return all;
}

}  // namespace

Devices GetDevices(const Module& module) {
  return {std::max<int64_t>(module.config().num_replicas, 1), std::max<int64_t>(module.config().num_partitions, 1)};
}

Literal MakeDeviceArgument(const Literal& argument, int64_t device) {
  const Shape& shape = argument.shape();
  if (device == 0 || !shape.IsArray() || argument.num_elements() < 2) return argument;
  const int64_t rank = shape.rank(), n = argument.num_elements();
  if (rank >= 2 && shape.dimensions(rank - 1) == shape.dimensions(rank - 2)) return argument;
  Literal moved(shape);
  const int64_t width = ByteWidth(shape.element_type());
  std::byte* to = moved.mutable_bytes();
  for (int64_t i = 0; i < n; ++i) {
    std::memcpy(to + (i + device) % n * width, argument.bytes() + i * width, static_cast<size_t>(width));
  }
  return moved;
}

absl::StatusOr<std::vector<BoundedValue>> BoundOnDevices(const Instruction& i,
                                                         absl::Span<const std::vector<const BoundedValue*>> operands,
                                                         const Devices& devices) {
  std::vector<BoundedValue> all;
  switch (i.opcode()) {
    case Opcode::kReplicaId:
    case Opcode::kPartitionId:
      for (int64_t d = 0; d < devices.count(); ++d) {
        const int64_t id = i.Is(Opcode::kReplicaId) ? d / devices.partitions : d % devices.partitions;
        all.push_back(BoundedValue::Exact(Literal::ScalarInt(P::kU32, id)));
      }
      return all;
    case Opcode::kAllReduceDone:
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteDone:
      for (const std::vector<const BoundedValue*>& o : operands) {
        all.push_back(i.Is(Opcode::kAllReduceDone) ? *o[0] : o[0]->elements[1]);
      }
      return all;
    default:
      break;
  }
  if (i.info().Has(kCollective)) return BoundCollective(i, operands, devices);
  for (const std::vector<const BoundedValue*>& o : operands) {
    ASSIGN_OR_RETURN(BoundedValue j, BoundInstruction(i, o));
    all.push_back(std::move(j));
  }
  return all;
}

namespace {

// Evaluates the entry on the devices; argument(k, d) is parameter k of device d.
absl::StatusOr<BoundedValue> BoundEntryOn(const Module& module, const Devices& devices,
                                          absl::FunctionRef<BoundedValue(size_t, int64_t)> argument, BoundedValues* all,
                                          const BoundingHooks& change) {
  const size_t count = static_cast<size_t>(devices.count());
  std::vector<BoundedValues> values(count);
  for (const auto& i : module.entry()->instructions()) {
    if (i->Is(Opcode::kParameter)) {
      for (size_t d = 0; d < count; ++d) {
        values[d][i.get()] = argument(static_cast<size_t>(i->parameter_number()), static_cast<int64_t>(d));
      }
      continue;
    }
    std::vector<std::vector<BoundedValue>> read(change.read ? count : 0);
    std::vector<std::vector<const BoundedValue*>> operands(count);
    for (size_t d = 0; d < count; ++d) {
      for (const Instruction* o : i->operands()) operands[d].push_back(&values[d].at(o));
      if (!change.read) continue;
      for (const BoundedValue* j : operands[d]) read[d].push_back(*j);
      RETURN_IF_ERROR(change.read(*i, read[d]));
      operands[d].clear();
      for (const BoundedValue& j : read[d]) operands[d].push_back(&j);
    }
    ASSIGN_OR_RETURN(std::vector<BoundedValue> made, BoundOnDevices(*i, operands, devices));
    for (size_t d = 0; d < count; ++d) {
      if (change.given) change.given(*i, made[d]);
      values[d][i.get()] = std::move(made[d]);
    }
  }
  const Instruction* root = module.entry()->root();
  BoundedValue result;
  if (count == 1) {
    result = values[0].at(root);
  } else {
    result.is_tuple = true;
    for (BoundedValues& v : values) result.elements.push_back(v.at(root));
  }
  if (all != nullptr) *all = std::move(values[0]);
  return result;
}

}  // namespace

absl::StatusOr<BoundedValue> BoundEntry(const Module& module, absl::Span<const Literal> arguments, BoundedValues* all,
                                        const BoundingHooks& change) {
  const auto argument = [&](size_t k, int64_t d) { return BoundedValue::Exact(MakeDeviceArgument(arguments[k], d)); };
  return BoundEntryOn(module, GetDevices(module), argument, all, change);
}

absl::StatusOr<BoundedValue> BoundEntryWith(const Module& module, absl::Span<const BoundedValue> arguments,
                                            const BoundingHooks& change) {
  return BoundEntryOn(
      module, Devices(), [&](size_t k, int64_t) { return arguments[k]; }, nullptr, change);
}

}  // namespace backplane::cli::fuzz
