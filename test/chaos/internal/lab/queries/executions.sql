select f.execution_id from chaos.found f
