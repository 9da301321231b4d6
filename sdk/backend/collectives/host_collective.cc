#include "sdk/backend/collectives/host_collective.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <numeric>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "core/types/status_macros.h"

namespace backplane {
namespace {

constexpr int64_t kBlockBytes = 16384;  // an accumulator and an operand block of this size fit into the L1 cache

std::byte* Offset(void* p, int64_t offset) { return static_cast<std::byte*>(p) + offset; }
const std::byte* Offset(const void* p, int64_t offset) { return static_cast<const std::byte*>(p) + offset; }

void Copy(void* to, const void* from, int64_t bytes) {
  if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

// Copies rows of `bytes` bytes. Consecutive rows are a stride apart, in bytes.
void CopyRows(std::byte* to, int64_t to_stride, const std::byte* from, int64_t from_stride, int64_t rows,
              int64_t bytes) {
  for (int64_t r = 0; r < rows; ++r) Copy(to + r * to_stride, from + r * from_stride, bytes);
}

// Collects the first error of chunks that run concurrently.
class FirstError {
 public:
  void Add(absl::Status s) {
    if (s.ok()) return;
    MutexLock lock(mu_);
    if (status_.ok()) status_ = std::move(s);
  }
  absl::Status Take() {
    MutexLock lock(mu_);
    return std::move(status_);
  }

 private:
  Mutex mu_;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

int64_t ReadInteger(const void* data, PrimitiveType type, int64_t index) {
  const std::byte* at = Offset(data, index * ByteWidth(type));
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

absl::flat_hash_map<const Instruction*, int64_t> NumberCollectives(const Module& module) {
  absl::flat_hash_map<const Instruction*, int64_t> numbers;
  for (const Computation* computation : module.PostOrder()) {
    for (const auto& i : computation->instructions()) {
      if (i->info().Has(kCollective)) numbers.emplace(i.get(), static_cast<int64_t>(numbers.size()));
    }
  }
  return numbers;
}

absl::StatusOr<std::unique_ptr<HostCollective>> HostCollective::Make(const Instruction& op, int64_t number,
                                                                     int64_t replicas, int64_t partitions) {
  std::unique_ptr<HostCollective> c(new HostCollective);
  c->number_ = number;
  RETURN_IF_ERROR(c->Initialize(op, replicas, partitions));
  return c;
}

absl::Status HostCollective::Initialize(const Instruction& op, int64_t replicas, int64_t partitions) {
  opcode_ = op.opcode();
  name_ = op.name();
  tuple_form_ = op.shape().IsTuple();
  auto add = [](const Shape& shape, std::vector<Leaf>& leaves) {
    ForEachLeaf(shape, [&](const Shape& s, const std::vector<int64_t>&) {
      leaves.push_back({s, s.IsArray() ? ByteWidth(s.element_type()) : 0, s.IsArray() ? s.num_elements() : 0});
    });
  };
  for (const Instruction* o : op.operands()) add(o->shape(), operands_);
  add(op.shape(), results_);
  if (!op.dimensions().empty()) dimension_ = op.dimensions()[0];
  membership_of_.assign(static_cast<size_t>(replicas * partitions), {-1, -1});
  switch (opcode_) {
    case Opcode::kCollectivePermute: {
      // The groups are the connected components of the pairs: processes in no pair need not wait.
      ASSIGN_OR_RETURN(Pairs pairs, GetProcessPairs(op, replicas, partitions));
      std::vector<int64_t> parent(membership_of_.size());
      std::iota(parent.begin(), parent.end(), 0);
      auto find = [&](int64_t p) {
        while (parent[p] != p) p = parent[p] = parent[parent[p]];
        return p;
      };
      source_of_.assign(membership_of_.size(), -1);
      for (const auto& [source, target] : pairs) {
        source_of_[target] = source;
        const int64_t a = find(source), b = find(target);
        parent[std::max(a, b)] = std::min(a, b);
      }
      std::vector<int64_t> group_of(membership_of_.size(), -1);
      for (int64_t p = 0; p < static_cast<int64_t>(parent.size()); ++p) {
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
        ASSIGN_OR_RETURN(Reducer reducer, Reducer::Make(*op.called(0), leaf.shape.element_type()));
        reducers_.push_back(std::move(reducer));
      }
      [[fallthrough]];
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kCollectiveBroadcast:
    case Opcode::kRaggedAllToAll: {
      ASSIGN_OR_RETURN(groups_, GetProcessGroups(op, replicas, partitions));
      break;
    }
    default:
      return absl::UnimplementedError(
          absl::StrCat(name_, ": ", op.info().text, " is no collective of the host's memory"));
  }
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (size_t i = 0; i < groups_[g].size(); ++i) {
      membership_of_[groups_[g][i]] = {static_cast<int32_t>(g), static_cast<int32_t>(i)};
    }
  }
  // GetProcessGroups checks for equal sizes where shapes depend on the size, so the first group stands for all.
  const int64_t n = static_cast<int64_t>(groups_.front().size());
  auto mismatch = [&](absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(name_, ": ", what, " ", op.shape().ToString(), " does not fit ",
                                                   op.operand(0)->shape().ToString(), " and groups of ", n));
  };
  if (opcode_ == Opcode::kAllGather || opcode_ == Opcode::kReduceScatter) {
    const bool is_gather = opcode_ == Opcode::kAllGather;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Shape& small = (is_gather ? operands_ : results_)[i].shape;
      const Shape& large = (is_gather ? results_ : operands_)[i].shape;
      if (small.dimensions(dimension_) * n != large.dimensions(dimension_)) return mismatch("result");
    }
  } else if (opcode_ == Opcode::kAllToAll) {
    if (tuple_form_ ? static_cast<int64_t>(operands_.size()) != n
                    : operands_[0].shape.dimensions(dimension_) % n != 0) {
      return mismatch("result");
    }
  } else if (opcode_ == Opcode::kRaggedAllToAll) {
    const Shape& offsets = operands_[2].shape;  // [n], [n * updates] or [n, updates]
    if (offsets.dimensions(0) % n != 0 || (offsets.rank() == 2 && offsets.dimensions(0) != n) ||
        offsets.num_elements() == 0)
      return mismatch("offsets for");
  }
  return absl::OkStatus();
}

int64_t HostCollective::group_bytes() const {
  int64_t bytes = 0;
  for (const Leaf& l : operands_) bytes += l.elements * l.width;
  for (const Leaf& l : results_) bytes += l.elements * l.width;
  return groups_.empty() ? bytes : bytes * static_cast<int64_t>(groups_.front().size());
}

HostCollective::BlockLayout HostCollective::GetBlockLayout(const Leaf& small) const {
  BlockLayout layout;
  layout.bytes = small.width;
  for (int64_t d = 0; d < small.shape.rank(); ++d)
    (d < dimension_ ? layout.count : layout.bytes) *= small.shape.dimensions(d);
  return layout;
}

void HostCollective::FillZeros(absl::Span<void* const> results) const {
  for (size_t i = 0; i < results.size(); ++i) {
    const int64_t bytes = results_[i].elements * results_[i].width;
    if (bytes > 0) std::memset(results[i], 0, static_cast<size_t>(bytes));
  }
}

absl::Status HostCollective::Run(LaunchMember& member, absl::Span<const void* const> operands,
                                 absl::Span<void* const> results, ParallelFor parallel) const {
  if (member.launch().process_count() != static_cast<int64_t>(membership_of_.size())) {
    return absl::InternalError(absl::StrCat(name_, ": compiled for ", membership_of_.size(), " processes, launched on ",
                                            member.launch().process_count()));
  }
  if (member.process() < 0 || member.process() >= member.launch().process_count()) {
    return absl::InternalError(absl::StrCat(name_, ": process ", member.process(), " of ", membership_of_.size()));
  }
  const auto [group, position] = membership_of_[static_cast<size_t>(member.process())];
  if (group < 0) {
    FillZeros(results);
    return absl::OkStatus();
  }
  const std::vector<int64_t>& members = groups_[static_cast<size_t>(group)];
  MemberBuffers buffers{operands, results};
  if (members.size() == 1) return ExecuteForGroup({&buffers, 1}, members, parallel);
  const int64_t iteration = member.NextIteration(number_);
  auto operation = [&](absl::Span<void* const> contributions) {
    std::vector<MemberBuffers> all(contributions.size());
    bool local = true;
    for (size_t i = 0; i < all.size(); ++i) {
      local &= contributions[i] != nullptr;
      if (contributions[i] != nullptr) all[i] = *static_cast<const MemberBuffers*>(contributions[i]);
    }
    if (local) return ExecuteForGroup(all, members, parallel);
    return ExecuteAcrossNodes(member.launch(), {number_, iteration, members.front(), 0}, absl::MakeSpan(all), members,
                              parallel);
  };
  return member.launch().EnterRendezvous({number_, iteration, members.front()}, name_, members,
                                         static_cast<size_t>(position), &buffers, operation);
}

absl::Status HostCollective::ExecuteForGroup(absl::Span<const MemberBuffers> members, absl::Span<const int64_t> group,
                                             ParallelFor parallel) const {
  switch (opcode_) {
    case Opcode::kAllReduce:
      for (size_t i = 0; i < operands_.size(); ++i) RETURN_IF_ERROR(AllReduce(members, i, parallel));
      return absl::OkStatus();
    case Opcode::kReduceScatter:
      for (size_t i = 0; i < operands_.size(); ++i) RETURN_IF_ERROR(ReduceScatter(members, i, parallel));
      return absl::OkStatus();
    case Opcode::kAllGather:
      for (size_t i = 0; i < operands_.size(); ++i) AllGather(members, i, parallel);
      return absl::OkStatus();
    case Opcode::kAllToAll:
      AllToAll(members, parallel);
      return absl::OkStatus();
    case Opcode::kRaggedAllToAll:
      return RaggedAllToAll(members, parallel);
    case Opcode::kCollectivePermute:
      CollectivePermute(members, group, parallel);
      return absl::OkStatus();
    default:  // collective-broadcast
      parallel(static_cast<int64_t>(members.size()), [&](int64_t m) {
        for (size_t i = 0; i < members[m].results.size(); ++i) {
          Copy(members[m].results[i], members[0].operands[i], operands_[i].elements * operands_[i].width);
        }
      });
      return absl::OkStatus();
  }
}

absl::Status HostCollective::AllReduce(absl::Span<const MemberBuffers> members, size_t leaf,
                                       ParallelFor parallel) const {
  const Leaf& l = operands_[leaf];
  const int64_t block = std::max<int64_t>(kBlockBytes / l.width, 1), blocks = (l.elements + block - 1) / block;
  FirstError error;
  parallel(blocks, [&](int64_t b) {
    alignas(64) std::byte sum[kBlockBytes];
    const int64_t first = b * block, n = std::min(block, l.elements - first), at = first * l.width, bytes = n * l.width;
    absl::InlinedVector<const void*, 16> from;
    for (const MemberBuffers& m : members) from.push_back(Offset(m.operands[leaf], at));
    absl::Status s = reducers_[leaf].Reduce(sum, from, n);
    if (!s.ok()) return error.Add(std::move(s));
    for (const MemberBuffers& m : members) {
      if (!m.results.empty()) Copy(Offset(m.results[leaf], at), sum, bytes);
    }
  });
  return error.Take();
}

absl::Status HostCollective::ReduceScatter(absl::Span<const MemberBuffers> members, size_t leaf,
                                           ParallelFor parallel) const {
  const Leaf& small = results_[leaf];
  const BlockLayout layout = GetBlockLayout(small);
  const int64_t n = static_cast<int64_t>(members.size()), row = n * layout.bytes;
  if (small.elements == 0) return absl::OkStatus();
  // A chunk is several whole rows (a strip), or a part of one row if a row exceeds kBlockBytes.
  const int64_t rows = std::clamp<int64_t>(kBlockBytes / layout.bytes, 1, layout.count);
  const int64_t max_bytes = kBlockBytes / small.width * small.width, part = std::min(layout.bytes, max_bytes);
  const int64_t parts = (layout.bytes + part - 1) / part, strips = (layout.count + rows - 1) / rows;
  FirstError error;
  parallel(n * strips * parts, [&](int64_t chunk) {
    const int64_t p = chunk % parts, strip = chunk / parts % strips, target = chunk / parts / strips;
    const int64_t first = strip * rows, count = std::min(rows, layout.count - first);
    const int64_t offset = p * part, bytes = std::min(part, layout.bytes - offset);
    if (count == 1) {  // contiguous: reduces without a copy
      absl::InlinedVector<const void*, 16> from;
      for (const MemberBuffers& m : members)
        from.push_back(Offset(m.operands[leaf], first * row + target * layout.bytes + offset));
      void* to = Offset(members[target].results[leaf], first * layout.bytes + offset);
      return error.Add(reducers_[leaf].Reduce(to, from, bytes / small.width));
    }
    // Packs the rows of each member, so that one call reduces all of them.
    std::vector<std::byte> packed(members.size() * static_cast<size_t>(count * bytes));
    absl::InlinedVector<const void*, 16> from;
    for (size_t m = 0; m < members.size(); ++m) {
      std::byte* to = packed.data() + m * static_cast<size_t>(count * bytes);
      CopyRows(to, bytes, Offset(members[m].operands[leaf], first * row + target * layout.bytes + offset), row, count,
               bytes);
      from.push_back(to);
    }
    absl::Status s = reducers_[leaf].Reduce(packed.data(), from, count * bytes / small.width);
    if (!s.ok()) return error.Add(std::move(s));
    CopyRows(Offset(members[target].results[leaf], first * layout.bytes + offset), layout.bytes, packed.data(), bytes,
             count, bytes);
  });
  return error.Take();
}

void HostCollective::AllGather(absl::Span<const MemberBuffers> members, size_t leaf, ParallelFor parallel) const {
  const BlockLayout layout = GetBlockLayout(operands_[leaf]);
  const int64_t n = static_cast<int64_t>(members.size()), row = n * layout.bytes;
  parallel(n, [&](int64_t m) {
    if (members[m].results.empty()) return;
    for (int64_t from = 0; from < n; ++from) {
      CopyRows(Offset(members[m].results[leaf], from * layout.bytes), row, Offset(members[from].operands[leaf], 0),
               layout.bytes, layout.count, layout.bytes);
    }
  });
}

void HostCollective::AllToAll(absl::Span<const MemberBuffers> members, ParallelFor parallel) const {
  const int64_t n = static_cast<int64_t>(members.size());
  if (tuple_form_) {
    parallel(n, [&](int64_t m) {
      for (int64_t from = 0; from < n; ++from) {
        Copy(members[m].results[from], members[from].operands[m], results_[from].elements * results_[from].width);
      }
    });
    return;
  }
  BlockLayout layout = GetBlockLayout(operands_[0]);
  layout.bytes /= n;
  const int64_t row = n * layout.bytes;
  parallel(n, [&](int64_t m) {
    for (int64_t from = 0; from < n; ++from) {
      CopyRows(Offset(members[m].results[0], from * layout.bytes), row,
               Offset(members[from].operands[0], m * layout.bytes), row, layout.count, layout.bytes);
    }
  });
}

void HostCollective::CollectivePermute(absl::Span<const MemberBuffers> members, absl::Span<const int64_t> group,
                                       ParallelFor parallel) const {
  parallel(static_cast<int64_t>(members.size()), [&](int64_t m) {
    const int64_t source = source_of_[group[m]];
    if (members[m].results.empty()) return;
    if (source < 0) return FillZeros(members[m].results);
    const MemberBuffers& from = members[membership_of_[source].second];
    for (size_t i = 0; i < operands_.size(); ++i) {
      Copy(members[m].results[i], from.operands[i], operands_[i].elements * operands_[i].width);
    }
  });
}

absl::Status HostCollective::RaggedAllToAll(absl::Span<const MemberBuffers> members, ParallelFor parallel) const {
  // Operands: input, output, input offsets, send sizes, output offsets, receive sizes. Each of the last four has one
  // entry per peer and update.
  const int64_t n = static_cast<int64_t>(members.size()), updates = operands_[2].elements / n;
  const Leaf &input = operands_[0], &output = operands_[1];
  const int64_t in_rows = input.shape.dimensions(0), out_rows = output.shape.dimensions(0);
  int64_t row = output.width;
  for (int64_t d = 1; d < output.shape.rank(); ++d) row *= output.shape.dimensions(d);
  FirstError error;
  parallel(n, [&](int64_t m) {
    if (members[m].results.empty()) return;
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
        Copy(Offset(members[m].results[0], to * row), Offset(members[from].operands[0], start * row), count * row);
      }
    }
  });
  return error.Take();
}

}  // namespace backplane
