#include "sdk/backend/collectives/host_collective.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <numeric>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kBlockBytes = 16384;  // of a reduction: accumulator and operand block stay in the nearest cache

std::byte* At(void* p, int64_t offset) { return static_cast<std::byte*>(p) + offset; }
const std::byte* At(const void* p, int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Rows of `bytes`, each `stride` apart on either side.
void CopyRows(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t rows,
              int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r) Copy(to + r * to_stride, from + r * from_stride, bytes);
}

// The first error of chunks that run side by side.
class FirstError {
 public:
  void Add(absl::Status s) {
    if (s.ok()) return;
    std::lock_guard<std::mutex> lock(mu_);
    if (status_.ok()) status_ = std::move(s);
  }
  absl::Status Take() { return std::move(status_); }

 private:
  std::mutex mu_;
  absl::Status status_;
};

int64_t ReadInteger(const void* data, PrimitiveType type, int64_t index) {
  const std::byte* at = At(data, index * ByteWidth(type));
  auto read = [&](auto zero) {
    std::memcpy(&zero, at, sizeof zero);
    return static_cast<int64_t>(zero);
  };
  switch (ByteWidth(type)) {
    case 1:
      return IsUnsigned(type) ? read(uint8_t{0}) : read(int8_t{0});
    case 2:
      return IsUnsigned(type) ? read(uint16_t{0}) : read(int16_t{0});
    case 4:
      return IsUnsigned(type) ? read(uint32_t{0}) : read(int32_t{0});
    default:
      return read(int64_t{0});
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<HostCollective>> HostCollective::Make(const Instruction& op, int64_t replicas,
                                                                     int64_t partitions) {
  std::unique_ptr<HostCollective> c(new HostCollective);
  RETURN_IF_ERROR(c->Prepare(op, replicas, partitions));
  return c;
}

absl::Status HostCollective::Prepare(const Instruction& op, int64_t replicas, int64_t partitions) {
  opcode_ = op.opcode();
  name_ = op.name();
  id_ = op.id();
  tuple_form_ = op.shape().IsTuple();
  auto add = [](const Shape& shape, std::vector<Leaf>& leaves) {
    ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
      leaves.push_back({s, s.IsArray() ? ByteWidth(s.element_type()) : 0, s.IsArray() ? s.num_elements() : 0});
    });
  };
  for (const Instruction* o : op.operands()) add(o->shape(), operands_);
  add(op.shape(), results_);
  if (!op.dimensions().empty()) dimension_ = op.dimensions()[0];
  place_of_.assign(static_cast<size_t>(replicas * partitions), {-1, -1});
  switch (opcode_) {
    case Opcode::kCollectivePermute: {
      // Those that exchange something, directly or through others, meet; the rest need nobody.
      ASSIGN_OR_RETURN(Pairs pairs, ProcessPairsOf(op, replicas, partitions));
      std::vector<int64_t> head(place_of_.size());
      std::iota(head.begin(), head.end(), 0);
      auto find = [&](int64_t p) {
        while (head[p] != p) p = head[p] = head[head[p]];
        return p;
      };
      source_of_.assign(place_of_.size(), -1);
      for (const auto& [source, target] : pairs) {
        source_of_[target] = source;
        const int64_t a = find(source), b = find(target);
        head[std::max(a, b)] = std::min(a, b);
      }
      std::vector<int64_t> group_of(place_of_.size(), -1);
      for (int64_t p = 0; p < static_cast<int64_t>(head.size()); ++p) {
        int64_t& g = group_of[find(p)];
        if (g < 0) {
          g = static_cast<int64_t>(groups_.size());
          groups_.emplace_back();
        }
        groups_[g].push_back(p);
      }
      break;
    }
    case Opcode::kAllReduce:
    case Opcode::kReduceScatter:
      for (const Leaf& leaf : operands_) {
        ASSIGN_OR_RETURN(Combiner combiner, Combiner::Make(*op.called(0), leaf.shape.element_type()));
        combiners_.push_back(std::move(combiner));
      }
      [[fallthrough]];
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll: {
      ASSIGN_OR_RETURN(groups_, ProcessGroupsOf(op, replicas, partitions));
      break;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat(name_, ": ", op.info().text, " is no collective of the host's memory"));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].size(); ++i) {
      place_of_[groups_[g][i]] = {static_cast<int32_t>(g), static_cast<int32_t>(i)};
    }
  }
  // Groups of one size but for all-reduce and broadcast, whose shapes do not depend on it.
  const int64_t n = static_cast<int64_t>(groups_.front().size());
  auto misfit = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what, " ", op.shape().ToString(), " does not fit ",
                                                   op.operand(0)->shape().ToString(), " and groups of ", n));
  };
  if (opcode_ == Opcode::kAllGather || opcode_ == Opcode::kReduceScatter) {
    const bool gather = opcode_ == Opcode::kAllGather;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Shape& small = (gather ? operands_ : results_)[i].shape;
      const Shape& large = (gather ? results_ : operands_)[i].shape;
      if (small.dimensions(dimension_) * n != large.dimensions(dimension_)) return misfit("result");
    }
  } else if (opcode_ == Opcode::kAllToAll) {
    if (tuple_form_ ? static_cast<int64_t>(operands_.size()) != n
                    : operands_[0].shape.dimensions(dimension_) % n != 0) {
      return misfit("result");
    }
  } else if (opcode_ == Opcode::kRaggedAllToAll) {
    const Shape& offsets = operands_[2].shape;  // [n], [n * updates] or [n, updates]
    if (offsets.dimensions(0) % n != 0 || (offsets.rank() == 2 && offsets.dimensions(0) != n) ||
        offsets.num_elements() == 0)
      return misfit("offsets for");
  }
  return absl::OkStatus();
}

int64_t HostCollective::group_bytes() const {
  int64_t bytes = 0;
  for (const Leaf& l : operands_) bytes += l.elements * l.width;
  for (const Leaf& l : results_) bytes += l.elements * l.width;
  return groups_.empty() ? bytes : bytes * static_cast<int64_t>(groups_.front().size());
}

HostCollective::Split HostCollective::SplitAlong(const Leaf& small) const {
  Split s;
  s.block = small.width;
  for (int64_t d = 0; d < small.shape.rank(); ++d) (d < dimension_ ? s.outer : s.block) *= small.shape.dimensions(d);
  return s;
}

void HostCollective::Zero(absl::Span<void* const> results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t bytes = results_[i].elements * results_[i].width;
    if (bytes > 0) std::memset(results[i], 0, static_cast<size_t>(bytes));
  }
}

absl::Status HostCollective::Run(LaunchMember& member, absl::Span<const void* const> operands,
                                 absl::Span<void* const> results, ParallelFor parallel) const {
  if (member.launch().process_count() != static_cast<int64_t>(place_of_.size())) {
    return absl::InternalError(absl::StrCat(name_, ": compiled for ", place_of_.size(), " processes, launched on ",
                                            member.launch().process_count()));
  }
  if (member.process() < 0 || member.process() >= member.launch().process_count()) {
    return absl::InternalError(absl::StrCat(name_, ": process ", member.process(), " of ", place_of_.size()));
  }
  const auto [group, position] = place_of_[static_cast<size_t>(member.process())];
  if (group < 0) {
    Zero(results);
    return absl::OkStatus();
  }
  const std::vector<int64_t>& members = groups_[static_cast<size_t>(group)];
  Brought mine{operands, results};
  auto work = [&](absl::Span<void* const> brought) { return Work(brought, members, parallel); };
  if (members.size() == 1) {
    void* alone[] = {&mine};
    return work(alone);
  }
  return member.launch().Meet({id_, member.NextTurn(id_), members.front()}, name_, members,
                              static_cast<size_t>(position), &mine, work);
}

absl::Status HostCollective::Work(absl::Span<void* const> brought, absl::Span<const int64_t> group,
                                  ParallelFor parallel) const {
  std::vector<Brought> members;
  members.reserve(brought.size());
  for (void* b : brought) members.push_back(*static_cast<const Brought*>(b));
  switch (opcode_) {
    case Opcode::kAllReduce:
      for (size_t i = 0; i < operands_.size(); ++i) RETURN_IF_ERROR(Reduce(members, i, parallel));
      return absl::OkStatus();
    case Opcode::kReduceScatter:
      for (size_t i = 0; i < operands_.size(); ++i) RETURN_IF_ERROR(Scatter(members, i, parallel));
      return absl::OkStatus();
    case Opcode::kAllGather:
      for (size_t i = 0; i < operands_.size(); ++i) Gather(members, i, parallel);
      return absl::OkStatus();
    case Opcode::kAllToAll:
      Exchange(members, parallel);
      return absl::OkStatus();
    case Opcode::kRaggedAllToAll:
      return Ragged(members, parallel);
    case Opcode::kCollectivePermute:
      Permute(members, group, parallel);
      return absl::OkStatus();
    default:  // collective-broadcast
      parallel(static_cast<int64_t>(members.size()), [&](int64_t m) {
        for (size_t i = 0; i < operands_.size(); ++i) {
          Copy(members[m].results[i], members[0].operands[i], operands_[i].elements * operands_[i].width);
        }
      });
      return absl::OkStatus();
  }
}

absl::Status HostCollective::Reduce(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const {
  const Leaf& l = operands_[leaf];
  const int64_t block = std::max<int64_t>(kBlockBytes / l.width, 1), blocks = (l.elements + block - 1) / block;
  FirstError error;
  parallel(blocks, [&](int64_t b) {
    alignas(64) std::byte sum[kBlockBytes];
    const int64_t first = b * block, n = std::min(block, l.elements - first), at = first * l.width, bytes = n * l.width;
    absl::InlinedVector<const void*, 16> from;
    for (const Brought& m : members) from.push_back(At(m.operands[leaf], at));
    absl::Status s = combiners_[leaf].Fold(sum, from, n);
    if (!s.ok()) return error.Add(std::move(s));
    for (const Brought& m : members) Copy(At(m.results[leaf], at), sum, bytes);
  });
  return error.Take();
}

absl::Status HostCollective::Scatter(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const {
  const Leaf& small = results_[leaf];
  const Split split = SplitAlong(small);
  const int64_t n = static_cast<int64_t>(members.size()), row = n * split.block;
  if (small.elements == 0) return absl::OkStatus();
  // A piece is either several whole rows of a member's block, or a part of one row.
  const int64_t rows = std::clamp<int64_t>(kBlockBytes / split.block, 1, split.outer);
  const int64_t most = kBlockBytes / small.width * small.width, part = std::min(split.block, most);
  const int64_t parts = (split.block + part - 1) / part, strips = (split.outer + rows - 1) / rows;
  FirstError error;
  parallel(n * strips * parts, [&](int64_t chunk) {
    const int64_t p = chunk % parts, strip = chunk / parts % strips, me = chunk / parts / strips;
    const int64_t first = strip * rows, count = std::min(rows, split.outer - first);
    const int64_t offset = p * part, bytes = std::min(part, split.block - offset);
    if (count == 1) {  // in place: nothing to gather
      absl::InlinedVector<const void*, 16> from;
      for (const Brought& m : members) from.push_back(At(m.operands[leaf], first * row + me * split.block + offset));
      void* to = At(members[me].results[leaf], first * split.block + offset);
      return error.Add(combiners_[leaf].Fold(to, from, bytes / small.width));
    }
    std::vector<std::byte> rows_of(members.size() *
                                   static_cast<size_t>(count * bytes));  // of each member, close together
    absl::InlinedVector<const void*, 16> from;
    for (size_t m = 0; m < members.size(); ++m) {
      std::byte* to = rows_of.data() + m * static_cast<size_t>(count * bytes);
      CopyRows(to, bytes, At(members[m].operands[leaf], first * row + me * split.block + offset), row, count, bytes);
      from.push_back(to);
    }
    absl::Status s = combiners_[leaf].Fold(rows_of.data(), from, count * bytes / small.width);
    if (!s.ok()) return error.Add(std::move(s));
    CopyRows(At(members[me].results[leaf], first * split.block + offset), split.block, rows_of.data(), bytes, count,
             bytes);
  });
  return error.Take();
}

void HostCollective::Gather(absl::Span<const Brought> members, size_t leaf, ParallelFor parallel) const {
  const Split split = SplitAlong(operands_[leaf]);
  const int64_t n = static_cast<int64_t>(members.size()), row = n * split.block;
  parallel(n, [&](int64_t m) {
    for (int64_t from = 0; from < n; ++from) {
      CopyRows(At(members[m].results[leaf], from * split.block), row, At(members[from].operands[leaf], 0), split.block,
               split.outer, split.block);
    }
  });
}

void HostCollective::Exchange(absl::Span<const Brought> members, ParallelFor parallel) const {
  const int64_t n = static_cast<int64_t>(members.size());
  if (tuple_form_) {
    parallel(n, [&](int64_t m) {
      for (int64_t from = 0; from < n; ++from) {
        Copy(members[m].results[from], members[from].operands[m], results_[from].elements * results_[from].width);
      }
    });
    return;
  }
  Split split = SplitAlong(operands_[0]);
  split.block /= n;
  const int64_t row = n * split.block;
  parallel(n, [&](int64_t m) {
    for (int64_t from = 0; from < n; ++from) {
      CopyRows(At(members[m].results[0], from * split.block), row, At(members[from].operands[0], m * split.block), row,
               split.outer, split.block);
    }
  });
}

void HostCollective::Permute(absl::Span<const Brought> members, absl::Span<const int64_t> group,
                             ParallelFor parallel) const {
  parallel(static_cast<int64_t>(members.size()), [&](int64_t m) {
    const int64_t source = source_of_[group[m]];
    if (source < 0) return Zero(members[m].results);
    const Brought& from = members[place_of_[source].second];
    for (size_t i = 0; i < operands_.size(); ++i) {
      Copy(members[m].results[i], from.operands[i], operands_[i].elements * operands_[i].width);
    }
  });
}

absl::Status HostCollective::Ragged(absl::Span<const Brought> members, ParallelFor parallel) const {
  // Operands: input, output, input offsets, send sizes, output offsets, receive sizes; an entry for each peer and
  // update.
  const int64_t n = static_cast<int64_t>(members.size()), updates = operands_[2].elements / n;
  const Leaf &input = operands_[0], &output = operands_[1];
  const int64_t in_rows = input.shape.dimensions(0), out_rows = output.shape.dimensions(0);
  int64_t row = output.width;
  for (int64_t d = 1; d < output.shape.rank(); ++d) row *= output.shape.dimensions(d);
  FirstError error;
  parallel(n, [&](int64_t m) {
    Copy(members[m].results[0], members[m].operands[1], output.elements * output.width);
    for (int64_t from = 0; from < n; ++from) {
      for (int64_t u = 0; u < updates; ++u) {
        auto read = [&](size_t operand) {
          return ReadInteger(members[from].operands[operand], operands_[operand].shape.element_type(), m * updates + u);
        };
        const int64_t start = read(2), count = read(3), to = read(4);
        if (start < 0 || count < 0 || to < 0 || count > in_rows || count > out_rows || start > in_rows - count ||
            to > out_rows - count) {
          return error.Add(absl::InvalidArgumentError(absl::StrCat(name_, ": member ", from, " sends rows ", start, "+",
                                                                   count, " of ", in_rows, " to rows ", to, " of ",
                                                                   out_rows, " of member ", m)));
        }
        Copy(At(members[m].results[0], to * row), At(members[from].operands[0], start * row), count * row);
      }
    }
  });
  return error.Take();
}

}  // namespace backplane
