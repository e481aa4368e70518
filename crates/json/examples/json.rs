fn main() -> std::process::ExitCode { tidings_json::main(std::env::args_os().skip(1)) }
