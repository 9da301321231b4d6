#include "sdk/layers/record/slice.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "sdk/host/status.h"

namespace backplane::record {
namespace {

// Whether the operation changes the contents of its first object after that was created.
bool ChangesContents(Kind kind) {
  return kind == Kind::kTransferData || kind == Kind::kTransferLiteral || kind == Kind::kTransferError ||
         kind == Kind::kTransferMetadata || kind == Kind::kFulfillAlias || kind == Kind::kDonationReady;
}

bool CreatesProgram(Kind kind) {
  return kind == Kind::kCompile || kind == Kind::kCompileAhead || kind == Kind::kLoad || kind == Kind::kDeserialize;
}

absl::Status CopyBlobs(const SessionReader& from, const Operation& op, SessionWriter* to,
                       absl::flat_hash_set<std::string>* copied) {
  for (const BlobRef& blob : op.blobs) {
    if (!from.HasBlob(blob) || !copied->insert(FormatHex(blob.digest)).second) continue;
    // Programs and single arrays, which a replay holds in memory as well.
    BP_ASSIGN_OR_RETURN(const std::string bytes, from.ReadBlob(blob, uint64_t{1} << 36));
    to->AddBlob(absl::string_view(bytes));
  }
  return to->status();
}

}  // namespace

absl::StatusOr<std::vector<Link>> CollectLinks(const SessionReader& session) {
  std::vector<Link> links;
  links.reserve(session.size());
  for (size_t i = 0; i < session.size(); ++i) {
    BP_ASSIGN_OR_RETURN(Operation op, session.At(i));
    links.push_back({op.number, op.kind, std::move(op.uses), std::move(op.makes)});
  }
  return links;
}

Selection CollectDependencies(const std::vector<Link>& links, size_t target) {
  absl::flat_hash_map<uint64_t, size_t> maker;
  absl::flat_hash_map<uint64_t, std::vector<size_t>> contributors;
  for (size_t i = 0; i <= target && i < links.size(); ++i) {
    for (uint64_t id : links[i].makes) maker[id] = i;
    if (ChangesContents(links[i].kind) && !links[i].uses.empty()) contributors[links[i].uses[0]].push_back(i);
  }
  Selection needed;
  std::vector<size_t> work = {target};
  while (!work.empty()) {
    const size_t i = work.back();
    work.pop_back();
    if (!needed.insert(i).second) continue;
    for (uint64_t id : links[i].uses)
      if (auto made = maker.find(id); id != 0 && made != maker.end()) work.push_back(made->second);
    for (uint64_t id : links[i].makes)
      if (auto filled = contributors.find(id); id != 0 && filled != contributors.end())
        work.insert(work.end(), filled->second.begin(), filled->second.end());
  }
  return needed;
}

Selection RemoveOperations(const std::vector<Link>& links, const Selection& keep, const Selection& removed) {
  absl::flat_hash_set<uint64_t> gone;
  Selection left;
  for (size_t i : keep) {
    const Link& link = links[i];
    bool drop = removed.count(i) != 0;
    for (uint64_t id : link.uses) drop = drop || (id != 0 && gone.contains(id));
    if (drop) {
      gone.insert(link.makes.begin(), link.makes.end());
    } else {
      left.insert(i);
    }
  }
  return left;
}

absl::Status WriteSelection(const SessionReader& session, const Selection& keep, Replayer* values, size_t split,
                            const std::string& made_from, const std::string& path, bool read_last) {
  SessionInfo info = session.info();
  info.made_from = made_from;
  SessionWriter::Settings settings;
  settings.compression = 9;
  BP_ASSIGN_OR_RETURN(std::unique_ptr<SessionWriter> writer, SessionWriter::Create(path, settings));
  writer->Describe(info);

  // The objects from operations before the split that later operations use.
  absl::flat_hash_set<uint64_t> used;
  std::vector<Operation> before;
  for (auto it = keep.lower_bound(split); it != keep.end(); ++it) {
    BP_ASSIGN_OR_RETURN(const Operation op, session.At(*it));
    used.insert(op.uses.begin(), op.uses.end());
  }
  used.erase(0);

  absl::flat_hash_set<std::string> copied;
  for (size_t i : keep) {
    BP_ASSIGN_OR_RETURN(Operation op, session.At(i));
    if (i >= split) break;
    if (values != nullptr) BP_RETURN_IF_ERROR(host::AddContext(values->Step(op).status, absl::StrCat(op.number)));
    if (op.kind == Kind::kClient || CreatesProgram(op.kind)) before.push_back(std::move(op));
  }
  // Removes programs that no operation after the split runs. Backwards, because a loaded program needs the one that it
  // came from.
  for (size_t n = before.size(); n-- > 0;) {
    Operation& op = before[n];
    bool needed = op.kind == Kind::kClient;
    for (uint64_t id : op.makes) needed = needed || used.contains(id);
    if (needed) {
      used.insert(op.uses.begin(), op.uses.end());
      for (uint64_t id : op.makes) used.erase(id);
    } else {
      before.erase(before.begin() + static_cast<int64_t>(n));
    }
  }
  used.erase(0);
  for (Operation& op : before) {
    BP_RETURN_IF_ERROR(CopyBlobs(session, op, writer.get(), &copied));
    writer->Add(op);
  }
  for (size_t i : keep) {
    if (i >= split) break;
    BP_ASSIGN_OR_RETURN(const Operation op, session.At(i));
    for (uint64_t id : op.makes) {
      if (used.erase(id) == 0) continue;
      const host::Buffer* buffer = values == nullptr ? nullptr : values->FindBuffer(id);
      if (buffer == nullptr) {
        return absl::FailedPreconditionError(absl::StrCat("split: what operation ", op.number, " (", KindName(op.kind),
                                                          ") made is used later and is no live buffer"));
      }
      BP_ASSIGN_OR_RETURN(Operation made, values->AsFromHost(id, writer.get()));
      made.number = op.number;
      writer->Add(made);
    }
  }
  for (auto it = keep.lower_bound(split); it != keep.end(); ++it) {
    BP_ASSIGN_OR_RETURN(Operation op, session.At(*it));
    if (values != nullptr) {
      const Outcome outcome = values->Step(op);
      if (outcome.skipped.empty()) {
        op.code = static_cast<int>(outcome.status.code());
        op.message = std::string(outcome.status.message());
      }
      if (outcome.read.has_value()) {
        MemorySource source(absl::MakeConstSpan(outcome.read->data));
        op.type = outcome.read->type;
        op.dims = outcome.read->dims;
        op.blobs = {writer->AddBlob(source)};
        op.data_left_out = false;
      }
    }
    BP_RETURN_IF_ERROR(CopyBlobs(session, op, writer.get(), &copied));
    writer->Add(op);
  }
  if (read_last && values != nullptr && !keep.empty()) {
    BP_ASSIGN_OR_RETURN(const Operation last, session.At(*keep.rbegin()));
    uint64_t event = 0;
    for (size_t i = 0; i < session.size(); ++i) {
      BP_ASSIGN_OR_RETURN(const Operation op, session.At(i));
      for (uint64_t id : op.makes) event = std::max(event, id);
    }
    for (uint64_t id : last.makes) {
      const host::Buffer* buffer = values->FindBuffer(id);
      if (buffer == nullptr) continue;
      BP_ASSIGN_OR_RETURN(const host::HostArray array, buffer->ToHost());
      Operation read, wait;
      read.kind = Kind::kRead;
      read.uses = {id};
      read.makes = {++event};
      read.layout.emplace();  // dense, the last dimension fastest
      for (size_t d = array.dims.size(); d-- > 0;) read.layout->minor_to_major.push_back(static_cast<int64_t>(d));
      read.numbers = {static_cast<int64_t>(array.data.size())};
      wait.kind = Kind::kWait;
      wait.uses = {event};
      wait.numbers = {kAwaited};
      wait.type = array.type;
      wait.dims = array.dims;
      MemorySource source(absl::MakeConstSpan(array.data));
      wait.blobs = {writer->AddBlob(source)};
      writer->Add(read);
      writer->Add(wait);
    }
  }
  writer->Finish();
  return writer->status();
}

}  // namespace backplane::record
