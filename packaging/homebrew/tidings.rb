# The formula of a tap. `packaging/parts/manifests.py` writes the places in braces.
class Tidings < Formula
  desc "One MCP endpoint in front of all your MCP servers"
  homepage "{repository}"
  version "{version}"
  license any_of: ["Apache-2.0", "MIT"]

  on_macos do
    on_arm do
      url "{repository}/releases/download/v{version}/tidings-{version}-aarch64-apple-darwin.tar.gz"
      sha256 "{sha256:aarch64-apple-darwin}"
    end
    on_intel do
      url "{repository}/releases/download/v{version}/tidings-{version}-x86_64-apple-darwin.tar.gz"
      sha256 "{sha256:x86_64-apple-darwin}"
    end
  end
  on_linux do
    on_arm do
      url "{repository}/releases/download/v{version}/tidings-{version}-aarch64-unknown-linux-musl.tar.gz"
      sha256 "{sha256:aarch64-unknown-linux-musl}"
    end
    on_intel do
      url "{repository}/releases/download/v{version}/tidings-{version}-x86_64-unknown-linux-musl.tar.gz"
      sha256 "{sha256:x86_64-unknown-linux-musl}"
    end
  end

  def install
    bin.install "bin/tidings"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/tidings"
    zsh_completion.install "share/zsh/site-functions/_tidings"
    fish_completion.install "share/fish/vendor_completions.d/tidings.fish"
    doc.install "share/doc/tidings/README.md"
  end

  service do
    run [opt_bin/"tidings", "serve"]
    keep_alive successful_exit: false
    environment_variables PATH: std_service_path_env
    error_log_path var/"log/tidings.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tidings --version")
  end
end
