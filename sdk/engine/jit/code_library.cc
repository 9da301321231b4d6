// Linking of objects into this process with JITLink. ORC's session and linking layer are used directly: LLJIT would
// add a platform, a compile layer and three libraries' worth of set-up that plain objects do not need.
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "core/relayout/transpose.h"
#include "llvm/ExecutionEngine/JITLink/JITLink.h"
#include "llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h"
#include "llvm/ExecutionEngine/Orc/Core.h"
#include "llvm/ExecutionEngine/Orc/ExecutorProcessControl.h"
#include "llvm/ExecutionEngine/Orc/ObjectFileInterface.h"
#include "llvm/ExecutionEngine/Orc/ObjectLinkingLayer.h"
#include "llvm/Support/MemoryBuffer.h"
#include "sdk/backend/faults.h"
#include "sdk/codegen/vector_math.h"
#include "sdk/engine/jit/jit.h"
#include "sdk/engine/jit/tool_support.h"

namespace backplane::engine::jit {
namespace {

namespace orc = llvm::orc;

std::string Message(llvm::Error error) { return llvm::toString(std::move(error)); }

llvm::Error GetErrorBound(const absl::Status& status) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), std::string(status.message()));
}

// Adds up what the linker puts into memory.
class SizePlugin : public orc::ObjectLinkingLayer::Plugin {
 public:
  explicit SizePlugin(std::atomic<int64_t>* bytes) : bytes_(bytes) {}
  void modifyPassConfig(orc::MaterializationResponsibility&, llvm::jitlink::LinkGraph&,
                        llvm::jitlink::PassConfiguration& config) override {
    config.PostFixupPasses.push_back([this](llvm::jitlink::LinkGraph& graph) {
      for (const llvm::jitlink::Block* block : graph.blocks()) bytes_->fetch_add(block->getSize());
      return llvm::Error::success();
    });
  }
  llvm::Error notifyFailed(orc::MaterializationResponsibility&) override { return llvm::Error::success(); }
  llvm::Error notifyRemovingResources(orc::JITDylib&, orc::ResourceKey) override { return llvm::Error::success(); }
  void notifyTransferringResources(orc::JITDylib&, orc::ResourceKey, orc::ResourceKey) override {}

 private:
  std::atomic<int64_t>* bytes_;
};

// Supplies the functions of CompileExactMath() to code that calls them.
class ExactMathGenerator : public orc::DefinitionGenerator {
 public:
  llvm::Error tryToGenerate(orc::LookupState&, orc::LookupKind, orc::JITDylib& dylib, orc::JITDylibLookupFlags,
                            const orc::SymbolLookupSet& missing) override {
    orc::SymbolMap found;
    for (const auto& [name, flags] : missing) {
      const absl::string_view wanted((*name).data(), (*name).size());
      // Only what that library defines: it would ask itself for anything else.
      if (!absl::c_linear_search(backplane::codegen::kExactMathNames, wanted)) continue;
      absl::StatusOr<const CodeLibrary*> library = CompileExactMath();
      if (!library.ok()) return GetErrorBound(library.status());
      absl::StatusOr<void*> address = (*library)->Lookup(wanted);
      if (!address.ok()) return GetErrorBound(address.status());
      found[name] = {orc::ExecutorAddr::fromPtr(*address), llvm::JITSymbolFlags::Exported};
    }
    return found.empty() ? llvm::Error::success() : dylib.define(orc::absoluteSymbols(std::move(found)));
  }
};

class OrcLibrary : public CodeLibrary {
 public:
  static absl::StatusOr<std::unique_ptr<CodeLibrary>> Create(absl::Span<const ObjectCode> objects,
                                                             const Symbols& externals, absl::string_view program) {
    llvm::Expected<std::unique_ptr<orc::SelfExecutorProcessControl>> control =
        orc::SelfExecutorProcessControl::Create();
    if (!control) return absl::InternalError(absl::StrCat("jit: ", Message(control.takeError())));
    auto library = std::make_unique<OrcLibrary>(std::move(*control), program);
    if (absl::Status s = library->Add(objects, externals); !s.ok()) return s;
    return std::unique_ptr<CodeLibrary>(std::move(library));
  }

  OrcLibrary(std::unique_ptr<orc::ExecutorProcessControl> control, absl::string_view program)
      : session_(std::move(control)) {
    session_.setErrorReporter([this](llvm::Error error) {
      absl::StrAppend(&reported_, reported_.empty() ? "" : "; ", Message(std::move(error)));
    });
    layer_ = std::make_unique<orc::ObjectLinkingLayer>(session_, session_.getExecutorProcessControl().getMemMgr());
    layer_->addPlugin(std::make_unique<SizePlugin>(&code_bytes_));
    AddToolPlugins(program, *layer_);
    dylib_ = &session_.createBareJITDylib("backplane");
    dylib_->addGenerator(std::make_unique<ExactMathGenerator>());
  }

  ~OrcLibrary() override {
    if (llvm::Error error = session_.endSession()) llvm::consumeError(std::move(error));
  }

  absl::StatusOr<void*> Lookup(absl::string_view name) const override {
    llvm::Expected<orc::ExecutorSymbolDef> symbol =
        session_.lookup({dylib_}, session_.intern(llvm::StringRef(name.data(), name.size())));
    if (!symbol) {
      std::string message = Message(symbol.takeError());
      if (!reported_.empty()) absl::StrAppend(&message, "; ", reported_);
      return absl::InternalError(absl::StrCat("jit: ", std::string(name), ": ", message));
    }
    return symbol->getAddress().toPtr<void*>();
  }

  int64_t code_bytes() const override { return code_bytes_.load(); }

 private:
  absl::Status Define(const Symbols& symbols) {
    orc::SymbolMap map;
    for (const auto& [name, address] : symbols) {
      auto [it, added] = defined_.insert({name, true});
      if (!added) continue;
      map[session_.intern(name)] = {orc::ExecutorAddr::fromPtr(address), llvm::JITSymbolFlags::Exported};
    }
    if (map.empty()) return absl::OkStatus();
    if (llvm::Error error = dylib_->define(orc::absoluteSymbols(std::move(map)))) {
      return absl::InternalError(absl::StrCat("jit: ", Message(std::move(error))));
    }
    return absl::OkStatus();
  }

  absl::Status Add(absl::Span<const ObjectCode> objects, const Symbols& externals) {
    // The caller's symbols first: they may replace a default.
    if (absl::Status s = Define(externals); !s.ok()) return s;
    if (absl::Status s = Define(DefaultSymbols()); !s.ok()) return s;
    orc::SymbolLookupSet wanted;
    for (size_t i = 0; i < objects.size(); ++i) {
      if (absl::Status s = Fault(FaultSite::kCode); !s.ok()) return s;
      // The bytes outlive this function's work only here, so the linker gets its own copy.
      std::unique_ptr<llvm::MemoryBuffer> buffer =
          llvm::MemoryBuffer::getMemBufferCopy(objects[i].bytes, absl::StrCat("backplane.", i));
      llvm::Expected<orc::MaterializationUnit::Interface> interface =
          orc::getObjectFileInterface(session_, buffer->getMemBufferRef());
      if (!interface) return absl::InternalError(absl::StrCat("jit: object ", i, ": ", Message(interface.takeError())));
      for (const auto& [name, flags] : interface->SymbolFlags) wanted.add(name);
      if (llvm::Error error =
              layer_->add(dylib_->getDefaultResourceTracker(), std::move(buffer), std::move(*interface))) {
        return absl::InternalError(absl::StrCat("jit: object ", i, ": ", Message(std::move(error))));
      }
    }
    // Link now, so that a missing symbol is an error of compilation and not of the first call.
    if (wanted.empty()) return absl::OkStatus();
    if (absl::Status s = Fault(FaultSite::kCode); !s.ok()) return s;
    llvm::Expected<orc::SymbolMap> linked =
        session_.lookup({{dylib_, orc::JITDylibLookupFlags::MatchAllSymbols}}, std::move(wanted));
    if (!linked) {
      std::string message = Message(linked.takeError());
      if (!reported_.empty()) absl::StrAppend(&message, "; ", reported_);
      return absl::InternalError(absl::StrCat("jit: linking failed: ", message));
    }
    return absl::OkStatus();
  }

  mutable orc::ExecutionSession session_;
  std::unique_ptr<orc::ObjectLinkingLayer> layer_;
  orc::JITDylib* dylib_ = nullptr;
  llvm::StringMap<bool> defined_;
  std::string reported_;
  std::atomic<int64_t> code_bytes_{0};
};

template <typename R, typename... A>
const void* Address(R (*function)(A...)) {
  return reinterpret_cast<const void*>(function);
}

}  // namespace

const CodeLibrary::Symbols& DefaultSymbols() {
  static const CodeLibrary::Symbols* const symbols =
      new CodeLibrary::Symbols{{"memcpy", Address(&std::memcpy)},
                               {"memmove", Address(&std::memmove)},
                               {"memset", Address(&std::memset)},
                               {"memcmp", Address(&std::memcmp)},
                               {"backplane_transpose_tile", Address(&RunTransposeTile)}};
  return *symbols;
}

absl::StatusOr<std::unique_ptr<CodeLibrary>> CodeLibrary::Link(absl::Span<const ObjectCode> objects,
                                                               const Symbols& externals, absl::string_view program) {
  return OrcLibrary::Create(objects, externals, program);
}

}  // namespace backplane::engine::jit
