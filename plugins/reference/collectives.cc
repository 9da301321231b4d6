#include "plugins/reference/collectives.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "core/eval/evaluator.h"
#include "core/types/status_macros.h"

namespace backplane::reference {
namespace {

using Groups = std::vector<std::vector<int64_t>>;  // of process ids: replica * partitions + partition

// Which processes meet, in which order: the four ways in which groups of ids are read.
Groups ProcessGroups(const Instruction& op, int64_t replicas, int64_t partitions) {
  std::vector<Ints> ids = op.attrs().Get<ReplicaGroups>(AttrId::kReplicaGroups).Expand();
  ids.erase(std::remove_if(ids.begin(), ids.end(), [](const Ints& g) { return g.empty(); }), ids.end());
  const bool channel = op.attrs().GetInt(AttrId::kChannelId) > 0;
  const bool global = op.attrs().GetBool(AttrId::kUseGlobalDeviceIds);
  const bool reduces = op.Is(Opcode::kAllReduce) || op.Is(Opcode::kAllGather) || op.Is(Opcode::kReduceScatter);
  auto all = [](int64_t n) {
    Ints out;
    for (int64_t i = 0; i < n; ++i) out.push_back(i);
    return out;
  };
  Groups groups;
  if (channel && global) {  // ids of processes
    if (ids.empty()) ids.push_back(all(replicas * partitions));
    for (const Ints& g : ids) groups.emplace_back(g.begin(), g.end());
  } else if (channel && reduces) {  // ids of replicas, together with all partitions
    if (ids.empty()) ids.push_back(all(replicas));
    for (const Ints& g : ids) {
      std::vector<int64_t> group;
      for (int64_t p = 0; p < partitions; ++p) {
        for (int64_t r : g) group.push_back(r * partitions + p);
      }
      groups.push_back(std::move(group));
    }
  } else if (channel) {  // ids of partitions, for each replica
    if (ids.empty()) ids.push_back(all(partitions));
    for (const Ints& g : ids) {
      for (int64_t r = 0; r < replicas; ++r) {
        std::vector<int64_t> group;
        for (int64_t p : g) group.push_back(r * partitions + p);
        groups.push_back(std::move(group));
      }
    }
  } else {  // ids of replicas, for each partition
    if (ids.empty()) ids.push_back(all(replicas));
    for (const Ints& g : ids) {
      for (int64_t p = 0; p < partitions; ++p) {
        std::vector<int64_t> group;
        for (int64_t r : g) group.push_back(r * partitions + p);
        groups.push_back(std::move(group));
      }
    }
  }
  return groups;
}

// Sizes around one dimension of a dense row-major array: before it, of it, and the bytes of one step of it.
struct Axis {
  int64_t outer = 1, size = 0, step = 0;
  Axis(const Shape& shape, int64_t dim) : size(shape.dimensions(dim)), step(ByteWidth(shape.element_type())) {
    for (int64_t i = 0; i < dim; ++i) outer *= shape.dimensions(i);
    for (int64_t i = dim + 1; i < shape.rank(); ++i) step *= shape.dimensions(i);
  }
};

// Copies `count` steps along a dimension from one array to another.
void CopyAlong(const Literal& from, int64_t from_start, Literal& to, int64_t to_start, int64_t count, int64_t dim) {
  const Axis a(from.shape(), dim), b(to.shape(), dim);
  std::byte* out = to.mutable_bytes();
  for (int64_t o = 0; o < a.outer; ++o) {
    std::memcpy(out + (o * b.size + to_start) * b.step, from.bytes() + (o * a.size + from_start) * a.step,
                static_cast<size_t>(count * a.step));
  }
}

// A binary operation on the two parameters in order, or null.
const Instruction* SimpleReducer(const Computation& c) {
  const Instruction* root = c.root();
  const bool binary = root->operand_count() == 2 && root->info().Has(kElementwise) && c.parameters().size() == 2 &&
                      root->operand(0) == c.parameter(0) && root->operand(1) == c.parameter(1);
  return binary ? root : nullptr;
}

class NoEnvironment : public EvalEnv {
 public:
  absl::StatusOr<Literal> Call(int, absl::Span<const Literal* const>) override {
    return absl::InternalError("no computation");
  }
  std::optional<Opcode> CalledBinaryOp(int) override { return std::nullopt; }
  absl::StatusOr<Literal> RunExternal(const OpContext&, absl::Span<const Literal* const>) override {
    return absl::InternalError("nothing outside");
  }
};

absl::StatusOr<Literal> Combine(const Computation& reducer, const Literal& a, const Literal& b) {
  if (const Instruction* op = SimpleReducer(reducer)) {
    const Shape* shapes[] = {&a.shape(), &b.shape()};
    OpContext context{op->opcode(), op->name(), shapes, &op->attrs(), {}, nullptr, nullptr};
    const Literal* values[] = {&a, &b};
    NoEnvironment none;
    return EvaluateOp(context, values, none);
  }
  Literal out = a;
  const size_t width = static_cast<size_t>(ByteWidth(a.shape().element_type()));
  const Shape scalar = Shape::Scalar(a.shape().element_type());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    ASSIGN_OR_RETURN(Literal x, Literal::FromBytes(scalar, absl::MakeConstSpan(a.bytes() + i * width, width)));
    ASSIGN_OR_RETURN(Literal y, Literal::FromBytes(scalar, absl::MakeConstSpan(b.bytes() + i * width, width)));
    const Literal* values[] = {&x, &y};
    ASSIGN_OR_RETURN(Literal z, EvaluateComputation(reducer, values));
    std::memcpy(out.mutable_bytes() + i * width, z.bytes(), width);
  }
  return out;
}

Shape ResultShape(const Instruction& op, size_t i) {
  return op.shape().IsTuple() ? op.shape().tuple_shapes(static_cast<int64_t>(i)) : op.shape();
}

Literal Pack(const Instruction& op, std::vector<Literal> results) {
  return op.shape().IsTuple() ? Literal::Tuple(std::move(results)) : std::move(results[0]);
}

// Member `me` of a group whose members brought `in`.
absl::StatusOr<Literal> ResultOf(const Instruction& op, const std::vector<std::vector<Literal>>& in, size_t me) {
  const size_t members = in.size(), operands = in[me].size();
  std::vector<Literal> results;
  switch (op.opcode()) {
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      for (size_t i = 0; i < operands; ++i) {
        Literal sum = in[0][i];
        for (size_t m = 1; m < members; ++m) {
          ASSIGN_OR_RETURN(sum, Combine(*op.called(0), sum, in[m][i]));
        }
        if (op.Is(Opcode::kReduceScatter)) {
          const int64_t dim = op.dimensions()[0];
          Literal part(ResultShape(op, i));
          const int64_t size = part.shape().dimensions(dim);
          CopyAlong(sum, static_cast<int64_t>(me) * size, part, 0, size, dim);
          sum = std::move(part);
        }
        results.push_back(std::move(sum));
      }
      break;
    case Opcode::kAllGather:
      for (size_t i = 0; i < operands; ++i) {
        Literal whole(ResultShape(op, i));
        const int64_t dim = op.dimensions()[0], size = in[me][i].shape().dimensions(dim);
        for (size_t m = 0; m < members; ++m) CopyAlong(in[m][i], 0, whole, static_cast<int64_t>(m) * size, size, dim);
        results.push_back(std::move(whole));
      }
      break;
    case Opcode::kAllToAll:
      if (op.shape().IsTuple()) {  // operand m is for member m
        for (size_t m = 0; m < members; ++m) results.push_back(in[m][me]);
      } else {
        const int64_t dim = op.dimensions()[0],
                      size = in[me][0].shape().dimensions(dim) / static_cast<int64_t>(members);
        Literal out(op.shape());
        for (size_t m = 0; m < members; ++m) {
          CopyAlong(in[m][0], static_cast<int64_t>(me) * size, out, static_cast<int64_t>(m) * size, size, dim);
        }
        results.push_back(std::move(out));
      }
      break;
    case Opcode::kCollectiveBroadcast:
      for (size_t i = 0; i < operands; ++i) results.push_back(in[0][i]);
      break;
    case Opcode::kRaggedAllToAll: {
      // Operands: input, output, input offsets, send sizes, output offsets, receive sizes; one entry per member and
      // update.
      Literal out = in[me][1];
      for (size_t m = 0; m < members; ++m) {
        const int64_t updates = in[m][2].num_elements() / static_cast<int64_t>(members);
        for (int64_t u = 0; u < updates; ++u) {
          const int64_t at = static_cast<int64_t>(me) * updates + u;
          const int64_t from = in[m][2].GetAsInt(at), count = in[m][3].GetAsInt(at), to = in[m][4].GetAsInt(at);
          const int64_t in_rows = in[m][0].shape().dimensions(0), out_rows = out.shape().dimensions(0);
          if (from < 0 || count < 0 || to < 0 || from > in_rows - count || to > out_rows - count) {
            return absl::InvalidArgumentError(
                absl::StrCat(op.name(), ": rows ", from, "+", count, " of ", in_rows, " to ", to, " of ", out_rows));
          }
          CopyAlong(in[m][0], from, out, to, count, 0);
        }
      }
      results.push_back(std::move(out));
      break;
    }
    default:
      return absl::UnimplementedError(absl::StrCat(op.name(), ": collective ", op.info().text, " is not offered"));
  }
  return Pack(op, std::move(results));
}

}  // namespace

void Launch::Fail(const absl::Status& status) {
  if (status.ok()) return;
  std::lock_guard<std::mutex> lock(mu_);
  if (failure_.ok()) failure_ = status;
  cv_.notify_all();
}

absl::StatusOr<Launch::Operands> Launch::Meet(int64_t instruction, int64_t turn, const std::vector<int64_t>& group,
                                              size_t position, std::vector<Literal> operands) {
  std::unique_lock<std::mutex> lock(mu_);
  const auto key = std::make_tuple(instruction, turn, group.front());
  Meeting& meeting = meetings_[key];  // a map's elements stay where they are
  meeting.operands.resize(group.size());
  meeting.operands[position] = std::move(operands);
  if (++meeting.arrived == group.size()) cv_.notify_all();
  cv_.wait(lock, [&] { return meeting.arrived == group.size() || !failure_.ok(); });
  if (meeting.arrived != group.size()) {
    return absl::AbortedError(absl::StrCat("collective: another device of the launch failed: ", failure_.message()));
  }
  Operands all = meeting.operands;  // literals share their data
  if (++meeting.left == group.size()) meetings_.erase(key);
  return all;
}

absl::StatusOr<Literal> Launch::Member::Run(const Instruction& op, absl::Span<const Literal* const> operands) {
  const int64_t me = replica_ * launch_->partitions_ + partition_;
  const int64_t turn = turns_[op.id()]++;
  // What others read must not change when this device goes on: borrowed arguments live until all devices are done with
  // the meeting, since every member waits for all, but a copy is what keeps that from being an argument.
  std::vector<Literal> mine;
  for (const Literal* o : operands) {
    Literal copy = *o;
    if (copy.shape().IsArray()) copy.mutable_bytes();
    mine.push_back(std::move(copy));
  }
  if (op.Is(Opcode::kCollectivePermute)) {
    // Everybody meets; a process takes from the one that sends to it, or gets zeros.
    const bool channel = op.attrs().GetInt(AttrId::kChannelId) > 0;
    std::vector<int64_t> group;
    const int64_t members = channel ? launch_->partitions_ : launch_->replicas_;
    for (int64_t i = 0; i < members; ++i) {
      group.push_back(channel ? replica_ * launch_->partitions_ + i : i * launch_->partitions_ + partition_);
    }
    const int64_t position = channel ? partition_ : replica_;
    ASSIGN_OR_RETURN(Operands all, launch_->Meet(op.id(), turn, group, static_cast<size_t>(position), std::move(mine)));
    std::vector<Literal> results;
    for (size_t i = 0; i < operands.size(); ++i) {
      Literal out(operands[i]->shape());
      for (const auto& [source, target] : op.attrs().Get<Pairs>(AttrId::kSourceTargetPairs)) {
        if (target == position && source >= 0 && source < members) out = all[source][i];
      }
      results.push_back(std::move(out));
    }
    return Pack(op, std::move(results));
  }
  for (const std::vector<int64_t>& group : ProcessGroups(op, launch_->replicas_, launch_->partitions_)) {
    auto at = std::find(group.begin(), group.end(), me);
    if (at == group.end()) continue;
    const size_t position = static_cast<size_t>(at - group.begin());
    ASSIGN_OR_RETURN(Operands all, launch_->Meet(op.id(), turn, group, position, std::move(mine)));
    return ResultOf(op, all, position);
  }
  if (op.Is(Opcode::kCollectiveBroadcast)) return Literal(op.shape());  // outside all groups: zeros
  return absl::InvalidArgumentError(
      absl::StrCat(op.name(), ": replica ", replica_, ", partition ", partition_, " is in none of the groups"));
}

std::shared_ptr<Launch> Launches::Join(int64_t run_id, int64_t replicas, int64_t partitions) {
  const int64_t devices = replicas * partitions;
  if (devices == 1) return std::make_shared<Launch>(replicas, partitions);
  std::lock_guard<std::mutex> lock(mu_);
  auto [it, inserted] = entries_.try_emplace(run_id);
  if (inserted) it->second = {std::make_shared<Launch>(replicas, partitions), devices};
  std::shared_ptr<Launch> launch = it->second.launch;
  if (--it->second.missing == 0) entries_.erase(it);
  return launch;
}

}  // namespace backplane::reference
