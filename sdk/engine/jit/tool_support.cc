#include "sdk/engine/jit/tool_support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/mutex.h"
#include "llvm/BinaryFormat/ELF.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/TargetProcess/JITLoaderGDB.h"

// Of LLVM; its header declares the types only.
extern "C" jit_descriptor __jit_debug_descriptor;
extern "C" void __jit_debug_register_code();

namespace backplane::engine::jit {
namespace {

namespace orc = llvm::orc;

bool IsRequested(const char* variable) {
  const char* value = secure_getenv(variable);
  return value != nullptr && absl::string_view(value) == "1";
}

// Whoever profiles sees what is missing there; a full disk must not make a program fail.
void AppendToPerfMap(absl::string_view lines) {
  // Anybody may have made a link of that name in /tmp: it is not followed.
  const int file = open(PerfMapPath().c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600);
  if (file < 0) return;
  // One call, so that the lines of two threads do not mix.
  const ssize_t written = write(file, lines.data(), lines.size());
  (void)written;
  close(file);
}

class PerfMapPlugin : public orc::ObjectLinkingLayer::Plugin {
 public:
  // Names in the file end with the line, and must not contain line breaks.
  explicit PerfMapPlugin(absl::string_view program) : program_(absl::StrReplaceAll(program, {{"\n", " "}})) {}

  void modifyPassConfig(orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    config.PostFixupPasses.push_back([this](llvm::jitlink::LinkGraph& graph) {
      std::string lines;
      for (const llvm::jitlink::Symbol* symbol : graph.defined_symbols()) {
        if (!symbol->isCallable() || !symbol->hasName() || symbol->getSize() == 0) continue;
        absl::StrAppend(&lines, absl::Hex(symbol->getAddress().getValue()), " ", absl::Hex(symbol->getSize()), " ",
                        program_, ".", symbol->getName().str(), "\n");
      }
      if (!lines.empty()) AppendToPerfMap(lines);
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override { return llvm::Error::success(); }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}

 private:
  const std::string program_;
};

// The list that GDB reads, and LLVM defines: https://sourceware.org/gdb/current/onlinedocs/gdb.html/JIT-Interface.html
Mutex& GdbMutex() {
  static Mutex* const mutex = new Mutex;
  return *mutex;
}

// An object in GDB's list. LLVM's own plugin leaves an object in the list when its memory is freed.
class GdbObject {
 public:
  explicit GdbObject(std::string elf) : elf_(std::move(elf)) {
    MutexLock lock(GdbMutex());
    entry_ = {__jit_debug_descriptor.first_entry, nullptr, elf_.data(), elf_.size()};
    if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = &entry_;
    __jit_debug_descriptor.first_entry = &entry_;
    Tell(JIT_REGISTER_FN);
  }
  ~GdbObject() {
    MutexLock lock(GdbMutex());
    if (entry_.next_entry != nullptr) entry_.next_entry->prev_entry = entry_.prev_entry;
    (entry_.prev_entry != nullptr ? entry_.prev_entry->next_entry : __jit_debug_descriptor.first_entry) =
        entry_.next_entry;
    Tell(JIT_UNREGISTER_FN);
  }
  GdbObject(const GdbObject&) = delete;

 private:
  void Tell(jit_actions_t action) {
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_descriptor.relevant_entry = &entry_;
    __jit_debug_register_code();  // GDB has a breakpoint there
    __jit_debug_descriptor.relevant_entry = nullptr;
  }

  const std::string elf_;
  jit_code_entry entry_{};
};

// Writes the addresses of the sections into their headers, as GDB expects them. Returns false for what is no ELF object
// of the host, or a damaged one.
bool SetSectionAddresses(const absl::flat_hash_map<std::string, uint64_t>& addresses, std::string& elf) {
  llvm::ELF::Elf64_Ehdr header;
  if (elf.size() < sizeof(header)) return false;
  std::memcpy(&header, elf.data(), sizeof(header));
  if (!header.checkMagic() || header.getFileClass() != llvm::ELF::ELFCLASS64 ||
      header.e_shentsize != sizeof(llvm::ELF::Elf64_Shdr)) {
    return false;
  }
  std::vector<llvm::ELF::Elf64_Shdr> sections(header.e_shnum);
  const uint64_t bytes = sections.size() * sizeof(llvm::ELF::Elf64_Shdr);
  if (header.e_shoff > elf.size() || bytes > elf.size() - header.e_shoff || header.e_shstrndx >= sections.size()) {
    return false;
  }
  std::memcpy(sections.data(), elf.data() + header.e_shoff, bytes);
  const llvm::ELF::Elf64_Shdr& names = sections[header.e_shstrndx];
  if (names.sh_offset > elf.size() || names.sh_size > elf.size() - names.sh_offset) return false;
  const absl::string_view text(elf.data() + names.sh_offset, names.sh_size);
  for (llvm::ELF::Elf64_Shdr& section : sections) {
    if (section.sh_name >= text.size()) return false;
    const absl::string_view rest = text.substr(section.sh_name);
    const auto found = addresses.find(std::string(rest.substr(0, rest.find('\0'))));
    if (found != addresses.end()) section.sh_addr = found->second;
  }
  std::memcpy(elf.data() + header.e_shoff, sections.data(), bytes);
  return true;
}

class GdbPlugin : public orc::ObjectLinkingLayer::Plugin {
 public:
  void notifyMaterializing(orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph& graph,
                           llvm::jitlink::JITLinkContext&, llvm::MemoryBufferRef object) override {
    MutexLock lock(mutex_);
    pending_[&graph] = object.getBuffer().str();
  }
  void modifyPassConfig(orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    config.PostFixupPasses.push_back([this](llvm::jitlink::LinkGraph& graph) {
      absl::flat_hash_map<std::string, uint64_t> addresses;
      for (const llvm::jitlink::Section& section : graph.sections()) {
        const llvm::jitlink::SectionRange range(section);
        if (!range.empty()) addresses[section.getName().str()] = range.getStart().getValue();
      }
      MutexLock lock(mutex_);
      auto found = pending_.extract(&graph);
      if (!found.empty() && SetSectionAddresses(addresses, found.mapped())) {
        objects_.push_back(std::make_unique<GdbObject>(std::move(found.mapped())));
      }
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override {
    // A library is one unit: all of its code is freed at once.
    MutexLock lock(mutex_);
    objects_.clear();
    return llvm::Error::success();
  }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}

 private:
  Mutex mutex_;
  absl::flat_hash_map<const llvm::jitlink::LinkGraph*, std::string> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<GdbObject>> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::string PerfMapPath() { return absl::StrCat("/tmp/perf-", getpid(), ".map"); }

void AddToolPlugins(absl::string_view program, orc::ObjectLinkingLayer& layer) {
  if (IsRequested("BACKPLANE_PERF_MAP")) layer.addPlugin(std::make_unique<PerfMapPlugin>(program));
  if (IsRequested("BACKPLANE_GDB")) layer.addPlugin(std::make_unique<GdbPlugin>());
}

}  // namespace backplane::engine::jit
